// error.h -- the only exception type of the engine: a sentence with operation, values and advice
#pragma once
#include <fmt/core.h>

#include <stdexcept>
#include <string>

#include "kernels/interrupt.h"

namespace mt {

/// The error of a call. The text starts with the operation: `matmul: inner sizes differ: (2 x 3)
/// and (4 x 5)`.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws an Error; the arguments are those of fmt::format.
[[noreturn]] void fail_with(fmt::string_view text, fmt::format_args values);
template <class... A> [[noreturn]] void fail(fmt::format_string<A...> text, A&&... values) {
  fail_with(text, fmt::make_format_args(values...));
}

/// The base class of formatters for types that messages format only with `{}`.
struct PlainFormat {
  constexpr auto parse(fmt::format_parse_context& text) { return text.begin(); }
};

constexpr const char kInterrupted[] = "interrupted!";
/// Throws an Error after Ctrl-C: results computed since then may be incomplete.
inline void check_interrupt() {
  if (mt_interrupted) [[unlikely]]
    throw Error(kInterrupted);
}

/// Formats a number for messages (fmt would write -nan).
std::string show(double x);

}  // namespace mt
