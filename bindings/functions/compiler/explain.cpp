// explain.cpp -- C functions for mt.explain: a program's operations, its code, its gradient
#include <algorithm>
#include <map>

#include "bindings/functions/functions.h"
#include "engine/compiler/program/builder.h"
#include "kernels/cpu/jit/jit_x64.h"
#include "kernels/cpu/jit/lower.h"
#include "kernels/cpu/jit/native.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt::lua {
namespace {

/// facts(program): its operations by name, its reads and writes, also those of its operations one after
/// the other, and the sizes from which it is compiled and run by several threads.
int facts(Args& a) {
  const ir::Expression& e = expression_at(a, 1);
  const Program& p = e.program();
  std::map<std::string, int> names;
  int operations = 0, out[2] = {}, moved[2] = {};  // numbers, bools
  for (int i = 0; i < p.count; ++i) {
    const Instruction& c = p.code[i];
    if (c.op < 0 && c.op != kReduce) continue;
    ++operations;
    ++names[c.op < 0 ? "reduction" : op_row(c.op).info->name];
    const auto move = [&](const Instruction& x) { moved[x.is_bool] += !x.is_row; };
    move(c);
    for (int v : c.in)
      if (v >= 0 && p.code[v].op != kConstant && p.code[v].op != kNumber) move(p.code[v]);
  }
  for (int k = 0; k < p.outputs; ++k) ++out[e.is_bool(k)];
  lua_newtable(a.L);
  a.set("operations", operations), a.set("inputs", p.inputs);
  a.set("numbers_out", out[0]), a.set("bools_out", out[1]);
  a.set("moved_numbers", moved[0]), a.set("moved_bools", moved[1]);
  a.set("native_from", (kNativeWork + p.count - 1) / p.count);
  a.set("spread_from", std::max(kSpreadWork / p.count, kGrain) + 1), a.set("piece", kGrain);
  lua_newtable(a.L);
  for (const auto& [name, n] : names) a.set(name.c_str(), n);
  lua_setfield(a.L, -2, "names");
  return 1;
}

/// machine(program, dtype): the machine code for contiguous operands, its size, its instruction
/// set; nothing if there is no code.
int machine(Args& a) {
  const ir::Expression& e = expression_at(a, 1);
  const Dtype dtype = a.dtype(2);
  Isa isa;
  ir::LaneProgram lanes;
  if (!jit_isa(isa) || (dtype != Dtype::f32 && dtype != Dtype::f64)) return 0;
  if (!lower(e.program(), dtype, lanes)) return 0;
  return a.push(machine_code(lanes, isa, 0), native_bytes(e.program(), dtype, 0),
                isa == Isa::avx512 ? "AVX-512" : "AVX2");
}

/// gradient(program, wanted): the program of the gradients of the inputs in `wanted` (bits);
/// nothing if they are zero, and nil and the index of a result if one is equal to it.
int gradient(Args& a) {
  const ir::Expression::Gradient& g = expression_at(a, 1).gradient(unsigned(lua_tointeger(a.L, 2)));
  if (!g.expression && !g.passed.empty())
    return lua_pushnil(a.L), 1 + a.push(g.passed[0].result + 1);
  if (!g.expression) return 0;
  lua_pushlightuserdata(a.L, const_cast<ir::Expression*>(g.expression));
  return 1;
}

const Entry kExplain[] = {
    {"facts(..)", "The operations, reads and writes of a program.", facts},
    {"machine(..)", "The machine code of a program for a dtype.", machine},
    {"gradient(..)", "The program of the gradients of the inputs in `wanted`.", gradient},
};

}  // namespace

void add_explain(lua_State* L) { add_internal(L, kExplain); }

}  // namespace mt::lua
