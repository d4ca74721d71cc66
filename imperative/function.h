// Functions of the host, under the path that hosts know.
#pragma once

#include "imperative/tape/function.h"
