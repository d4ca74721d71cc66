// Modes of the tape, under the path that hosts know.
#pragma once

#include "imperative/tape/modes.h"
