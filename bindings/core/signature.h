// signature.h -- the parameters of a function: names, types, ranges and defaults
//
// A signature is text that is parsed once. Help shows it, and calls are checked against it.
//   "sum(x, [dim]=nil, keepdim=false)"  optional arguments have '='
//   "cat([tensors], dim=1)"             a list: f{a, b, dim=2} means the list {a, b}
//   "zeros([shape..], dtype=nil)"       a list, into which plain integers are collected, or tensors
//   "exp(x, {out=})"                    may write its only result into a tensor of the caller
//   "timeit(fn, ..)"                    takes any further arguments
// Parameters of an entry with bind<fn> (bind.h) have the types of fn's parameters. Others may state
// their types: such arguments are checked before the body runs, missing ones get the defaults.
//   "Linear(in_features: int >= 1, out_features: int >= 1, bias: bool = true)"
//   "Dropout(p: number >= 0 <= 1 = 0.5)", "MSELoss(reduction: 'mean'|'sum'|'none' = 'mean')"
// Types: any bool device dtype finite function generator int ints list number numbers string
// strings table tensor tensors text (kKinds in signature.cpp), joined by '|'. Errors and the first
// line of help show a signature without them.
#pragma once
#include <string>
#include <vector>

#include "engine/core/shape.h"

namespace mt::lua {

/// The types that an argument may have, as bits.
namespace kind {
constexpr unsigned boolean = 1, device = 2, dtype = 4, function = 8, generator = 16, integer = 32,
                   integers = 64, list = 128, number = 256, numbers = 512, string = 1024,
                   strings = 2048, table = 4096, tensor = 8192, tensors = 16384, text = 32768,
                   position = 65536;  // integers that count from 1, or from -1 at the end
constexpr unsigned any = 0;
}  // namespace kind

/// The type of an engine function's parameter.
struct Type {
  unsigned kinds = kind::any;
  bool takes_nil = false;                // whether a value means nil
  const char* const* choices = nullptr;  // the names of an enum's values
  int choice_count = 0;
};

struct Param {
  std::string name, default_text;
  bool optional = false, list = false, collect = false;
  bool has_default = false;  // other than nil
  bool stated = false;       // whether the signature states the type
  unsigned kinds = kind::any;
  std::vector<std::string> choices;
  double low = -__builtin_inf(), high = __builtin_inf();  // for numbers
  bool above = false, below = false;                      // the limits low and high are excluded

  // The default, in the forms that accessors of Args need.
  double number = 0;
  int choice = 0;
  bool boolean = false;
  Dtype dtype = Dtype::none;
  Shape shape;  // positions are 0-based
  std::string text;

  /// "a whole number from 1"
  std::string expected() const;
  /// Whether a number is in the range; NaN is not.
  bool holds(double x) const {
    return (above ? x > low : x >= low) && (below ? x < high : x <= high);
  }
};

/// A parsed signature.
struct Signature {
  std::string name;
  std::string text;  // without types
  std::vector<Param> params;
  bool open = false;      // ends in "..": takes any further arguments
  bool out = false;       // has {out=}: takes a tensor for the result, only by name
  bool collects = false;  // some parameter collects plain values
  bool stated = false;    // some parameter's type is stated
  int required = 0;       // the number of required arguments
};

/// Parses a signature; `types` are those of an engine function, or null.
Signature parse_signature(const std::string& text, const Type* types, int type_count);
/// "a, b or c": the choices in an error.
std::string one_of(const std::vector<std::string>& words);
/// "number|tensor", "'mean'|'sum'": the type as written in a signature.
std::string type_text(const Param&);
/// The text in help for ranges and for parameters with choices: "p: a number from 0 to 1;
/// reduction: 'mean', 'sum' or 'none'"
std::string limits(const Signature&);

}  // namespace mt::lua
