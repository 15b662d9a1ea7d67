// print.cpp -- print options of tensors
#include <algorithm>

#include "bindings/functions/functions.h"

namespace mt::lua {
namespace {

constexpr double kMaxThreshold = 1 << 24;  // an expanded tensor can have 2^46 elements

int set_options(Args& a) {
  using S = PrintOptions::Scientific;
  PrintOptions o = print_options();
  if (a.given(5)) {
    o = PrintOptions();
    if (a.choice(5) == 1) o.precision = 2, o.edgeitems = 2;
    if (a.choice(5) == 2) o.threshold = int64_t(kMaxThreshold);
  }
  const auto read = [&a](int i, auto& option, double max) {
    if (a.given(i)) option = std::remove_reference_t<decltype(option)>(std::min(a.number(i), max));
  };
  read(1, o.precision, 17), read(2, o.threshold, kMaxThreshold), read(3, o.edgeitems, 10000);
  read(4, o.linewidth, 0x1p52);
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
    {"set_printoptions(precision: int >= 0 <= 17 = nil, threshold: number >= 0 = nil, "
     "edgeitems: int >= 0 = nil, linewidth: number >= 1 = nil, "
     "profile: 'default'|'short'|'full' = nil, sci_mode: bool = nil)",
     "Sets how tensors are printed; nil keeps an option. profile='default' restores all, 'short' prints "
     "2 decimals and 2 edge items, 'full' all elements. sci_mode: by default chosen for each tensor.",
     Body(set_options) | kReachesOut},
    {"get_printoptions()", "The options of set_printoptions as a table.", get_options},
};

}  // namespace

void register_print(Registry& c) { c.functions(kPrintFunctions); }

}  // namespace mt::lua
