// value.h -- formulas of kernels/ops.h for T = ir::Value: they add instructions to a program
#pragma once

#include "engine/compiler/program/builder.h"
#include "engine/core/thread.h"
#include "kernels/table.h"

namespace mt::ir {

/// During its lifetime, operations on values of this thread add to the program of this builder.
class BuilderScope : SaveAndRestore<Builder*> {
 public:
  explicit BuilderScope(Builder& b) : SaveAndRestore(current_, &b) {}
  static Builder& current() { return *current_; }

 private:
  static thread_local Builder* current_;
};

/// A value of the program under construction.
struct Value {
  int id = -1;
  Value() = default;
  struct Id {
    int id;
  };
  explicit Value(Id v) : id(v.id) {}
  Value(double x) : id(BuilderScope::current().constant(x)) {}  // NOLINT: formulas write T(0.5)
};

/// An operation on values: an instruction if its parameters are constants, otherwise its formula.
template <class Op, class... More> Value apply(Op, const Value& x, const More&... more) {
  constexpr int inputs = op::inputs<Op>;
  const Value all[] = {x, Value(more)...};
  int in[3] = {-1, -1, -1};
  double params[op::kMaxParams] = {};
  for (int i = 0; i < int(1 + sizeof...(More)); ++i) {
    if (i < inputs) {
      in[i] = all[i].id;
    } else if (const auto known = BuilderScope::current().constant_of(all[i].id)) {
      params[i - inputs] = *known;
    } else {
      if constexpr (op::traceable<Op>) return Op::f(x, Value(more)...);
      fail("{}: a parameter must be a constant", Op::info.name);
    }
  }
  return Value(Value::Id{BuilderScope::current().add(op::id<Op>, in, params)});
}

inline Value operator+(const Value& a, const Value& b) { return apply(op::Add{}, a, b); }
inline Value operator-(const Value& a, const Value& b) { return apply(op::Sub{}, a, b); }
inline Value operator*(const Value& a, const Value& b) { return apply(op::Mul{}, a, b); }
inline Value operator/(const Value& a, const Value& b) { return apply(op::Div{}, a, b); }
inline Value operator-(const Value& a) { return apply(op::Neg{}, a); }
inline Value operator<(const Value& a, const Value& b) { return apply(op::Lt{}, a, b); }
inline Value operator<=(const Value& a, const Value& b) { return apply(op::Le{}, a, b); }
inline Value operator>(const Value& a, const Value& b) { return apply(op::Gt{}, a, b); }
inline Value operator>=(const Value& a, const Value& b) { return apply(op::Ge{}, a, b); }
inline Value operator==(const Value& a, const Value& b) { return apply(op::Eq{}, a, b); }
inline Value operator!=(const Value& a, const Value& b) { return apply(op::Ne{}, a, b); }
inline Value select(const Value& mask, const Value& yes, const Value& no) {
  return apply(op::Where{}, mask, yes, no);
}
inline Value zeros_like(const Value&) { return Value(0.0); }

}  // namespace mt::ir
