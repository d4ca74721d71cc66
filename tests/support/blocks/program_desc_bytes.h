// A program's JSON file as Paddle saves it: a protocol buffer with the fields of framework.proto.
#pragma once

#include <string>

namespace gradc::testing {

/// The bytes of a canonical file's program. Requires attributes without SCALAR and numbers that are finite.
std::string programDescOf(const std::string &json);

}  // namespace gradc::testing
