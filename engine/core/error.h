// error.h -- the one exception of the engine: a sentence that says operation, values, cure
#pragma once
#include <fmt/core.h>

#include <stdexcept>
#include <string>

#include "kernels/interrupt.h"

namespace mt {

/// What went wrong with a call. The text starts with the operation: `matmul: inner sizes differ: (2
/// x 3) and (4 x 5)`.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws an Error; arguments as fmt::format's.
[[noreturn]] void fail_with(fmt::string_view text, fmt::format_args values);
template <class... A> [[noreturn]] void fail(fmt::format_string<A...> text, A&&... values) {
  fail_with(text, fmt::make_format_args(values...));
}

/// Of types that messages take as they are, by `{}` alone.
struct PlainFormat {
  constexpr auto parse(fmt::format_parse_context& text) { return text.begin(); }
};

constexpr const char kInterrupted[] = "interrupted!";
/// Throws Error where Ctrl-C came: what was computed since may be half done.
inline void check_interrupt() {
  if (mt_interrupted) [[unlikely]]
    throw Error(kInterrupted);
}

/// A number as messages show it (fmt would write -nan).
std::string show(double x);

}  // namespace mt
