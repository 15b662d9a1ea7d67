// error.cpp -- formats the text of an error and throws it
#include "engine/core/error.h"

namespace mt {

void fail_with(fmt::string_view text, fmt::format_args values) {
  throw Error(fmt::vformat(text, values));
}

std::string show(double x) { return x != x ? "nan" : fmt::format("{}", x); }

}  // namespace mt
