// What tests include besides, most often first.
#pragma once

#include <gtest/gtest.h>
