// print.cpp -- print options of tensors
#include <algorithm>
#include <cmath>

#include "bindings/functions/functions.h"

namespace mt::lua {
namespace {

constexpr int64_t kMaxThreshold = int64_t(1) << 24;  // an expanded tensor can have 2^46 elements

/// A count of at least `low`; math.huge means all.
int64_t count_at(const Args& a, int i, int64_t low, int64_t fallback) {
  if (!a.given(i)) return fallback;
  if (lua_type(a.L, i) == LUA_TNUMBER && lua_tonumber(a.L, i) == INFINITY) return int64_t(1) << 52;
  const int64_t n = a.integer(i);
  if (n < low)
    fail("set_printoptions: {} must be at least {}, got {}",
         signature_of(a.entry()).params[i - 1].name, low, n);
  return n;
}

int set_options(Args& a) {
  using S = PrintOptions::Scientific;
  PrintOptions o = print_options();
  if (a.given(5)) {
    const std::string profile = a.text(5);
    o = PrintOptions();
    if (profile == "short") o.precision = 2, o.edgeitems = 2;
    else if (profile == "full") o.threshold = kMaxThreshold;
    else if (profile != "default")
      fail("set_printoptions: '{}' is not a profile; use 'default', 'short' or 'full'", profile);
  }
  const int64_t precision = count_at(a, 1, 0, o.precision);
  if (precision > 17) fail("set_printoptions: a double has 17 digits, precision is {}", precision);
  o.precision = int(precision);
  o.threshold = std::min(count_at(a, 2, 0, o.threshold), kMaxThreshold);
  o.edgeitems = std::min<int64_t>(count_at(a, 3, 0, o.edgeitems), 10000);
  o.linewidth = count_at(a, 4, 1, o.linewidth);
  if (a.given(6)) o.scientific = a.boolean(6) ? S::always : S::never;
  print_options() = o;
  return 0;
}

int get_options(Args& a) {
  using S = PrintOptions::Scientific;
  const PrintOptions& o = print_options();
  lua_createtable(a.L, 0, 5);
  a.set("precision", o.precision), a.set("threshold", o.threshold);
  a.set("edgeitems", o.edgeitems), a.set("linewidth", o.linewidth);
  if (o.scientific != S::automatic) a.set("sci_mode", o.scientific == S::always);
  return 1;
}

const Entry kPrintFunctions[] = {
    {"set_printoptions(precision=nil, threshold=nil, edgeitems=nil, linewidth=nil, profile=nil, "
     "sci_mode=nil)",
     "Sets how tensors are printed; nil keeps an option. profile='default' restores all, "
     "'short' and 'full' are others; sci_mode is true, false, or chosen for each tensor.",
     Body(set_options) | kReachesOut},
    {"get_printoptions()", "The options of set_printoptions as a table.", get_options},
};

}  // namespace

void register_print(Registry& c) { c.functions(kPrintFunctions); }

}  // namespace mt::lua
