// compile.cpp -- C functions for compile/*.lua: building expression programs, running and explaining them
#include <algorithm>
#include <map>

#include "bindings/functions/functions.h"
#include "engine/compiler/cuda/program_cuda.h"
#include "engine/compiler/program/apply.h"
#include "kernels/cpu/jit/jit_x64.h"
#include "kernels/cpu/jit/lower.h"
#include "kernels/cpu/jit/native.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt::lua {
namespace {

struct TracedProgram : ir::Builder {
  static constexpr char kShown[] = "a program under construction";
};
ir::Builder& builder_at(const Args& a) { return Userdata<TracedProgram>::at(a, 1); }

const ir::Expression& expression(const Args& a, int i) {
  if (!lua_islightuserdata(a.L, i)) a.wrong(i, "a program");
  return *static_cast<const ir::Expression*>(lua_touserdata(a.L, i));
}

int value_at(const Args& a, const ir::Builder& b, int i) {
  const lua_Integer v = lua_tointeger(a.L, i);
  if (v < 0 || v >= b.count()) a.wrong(i, "a value of this program");
  return int(v);
}

/// op(builder, operation, line, values.., parameters..)
int add_operation(Args& a) {
  ir::Builder& b = builder_at(a);
  const int op = int(lua_tointeger(a.L, 2));
  if (op < 0 || op >= kOps) a.wrong(2, "an operation");
  const OpRow& row = op_row(op);
  b.set_line(int(lua_tointeger(a.L, 3)));
  int in[3] = {-1, -1, -1};
  for (int k = 0; k < row.inputs; ++k) in[k] = value_at(a, b, 4 + k);
  double params[op::kMaxParams] = {};
  for (int k = 0; k < row.params; ++k)
    params[k] = a.given(4 + row.inputs + k) ? lua_tonumber(a.L, 4 + row.inputs + k)
                                            : row.info->params[k].value;
  return a.push(b.add(op, in, params));
}

int constant(Args& a) {
  ir::Builder& b = builder_at(a);
  const int v = lua_isboolean(a.L, 2) ? b.constant_bool(lua_toboolean(a.L, 2))
                                      : b.constant(lua_tonumber(a.L, 2));
  return a.push(v);
}
int leaf(Args& a) {
  ir::Builder& b = builder_at(a);
  const int which = int(lua_tointeger(a.L, 3));
  return a.push(a.text(2) == "input" ? b.input(which) : b.number(which));
}
/// known(builder, value): the value of a constant, or nil, and whether it is a bool.
int known(Args& a) {
  const ir::Builder& b = builder_at(a);
  const int v = value_at(a, b, 2);
  const auto c = b.constant_of(v);
  if (!c) lua_pushnil(a.L);
  else if (b.is_bool(v)) lua_pushboolean(a.L, *c != 0);
  else lua_pushnumber(a.L, *c);
  return 1 + a.push(b.is_bool(v));
}

/// finish(builder, {values}, inputs, numbers): the program; which numbers it reads; the counts of
/// operations that were folded: of constants, of known values, and of one operand.
int finish(Args& a) {
  const ir::Builder& b = builder_at(a);
  std::vector<int> outputs;
  a.table(2);
  each_entry(a.L, 2, [&](int) { outputs.push_back(value_at(a, b, lua_gettop(a.L))); });
  const ir::Expression& e =
      b.finish(outputs, int(lua_tointeger(a.L, 3)), int(lua_tointeger(a.L, 4)));
  lua_pushlightuserdata(a.L, const_cast<ir::Expression*>(&e));
  lua_newtable(a.L);
  for (int i = 0; i < e.program().count; ++i)
    if (e.program().code[i].op == kNumber) {
      lua_pushboolean(a.L, 1);
      lua_rawseti(a.L, -2, e.program().code[i].which + 1);
    }
  const ir::Builder::Saved& saved = b.saved();
  return 2 + a.push(saved.folded, saved.shared, saved.simplified);
}

constexpr int kMaxNumbers = 256;
using Numbers = double[kMaxNumbers];
/// The numbers of a program at a stack index: a table, or nil if it reads none.
void numbers_at(const Args& a, int i, const Program& p, Numbers& numbers) {
  if (p.numbers > kMaxNumbers)
    fail("a compiled function reads {} numbers; at most {}", p.numbers, kMaxNumbers);
  const bool given = lua_istable(a.L, i);
  for (int k = 0; k < p.numbers; ++k) {
    numbers[k] = 0;
    if (!given) continue;
    lua_rawgeti(a.L, i, k + 1);
    numbers[k] = lua_tonumber(a.L, -1);
    lua_pop(a.L, 1);
  }
}
/// The results of a program: arguments are program, name, numbers or nil, tensors..
int results_of(Args& a) {
  const ir::Expression& e = expression(a, 1);
  const Program& p = e.program();
  Numbers numbers;
  numbers_at(a, 3, p, numbers);
  TensorList inputs;
  inputs.reserve(p.inputs);
  for (int k = 0; k < p.inputs; ++k) {
    if (!tensor_at(a.L, 4 + k))
      fail("{}: argument {} must be a tensor or a number", lua_tostring(a.L, 2), k + 1);
    inputs.push_back(a.tensor(4 + k));
  }
  return push_all(a, ir::apply(e, lua_tostring(a.L, 2), inputs, numbers));
}
/// The same, with a last argument for the tensor that receives the result.
int run_program(Args& a) {
  const int after = 4 + expression(a, 1).program().inputs;
  return a.given(after) ? run_into(a, after, results_of) : results_of(a);
}

/// reduce_pairs(program or function, numbers or nil, x, dim): a pairwise tree reduction along dim.
int reduce_pairs(Args& a) {
  const Tensor& x = a.tensor(3);
  const int dim = int(a.integer(4)) - 1;
  if (!lua_isfunction(a.L, 1)) {
    Numbers numbers;
    numbers_at(a, 2, expression(a, 1).program(), numbers);
    return a.push(ir::reduce_pairs(expression(a, 1), x, dim, numbers));
  }
  const ir::Pair pair = [&a](const Tensor& first, const Tensor& second) {
    lua_pushvalue(a.L, 1);
    push_tensor(a.L, first);
    push_tensor(a.L, second);
    lua_call(a.L, 2, 1);
    const Tensor y = a.tensor(lua_gettop(a.L));
    lua_pop(a.L, 1);
    return y;
  };
  return a.push(ir::reduce_pairs(pair, x, dim));
}

/// Pushes t if the table is {out=t}.
bool push_only_out(lua_State* L, int table) {
  const int top = lua_gettop(L);
  lua_pushnil(L);
  if (lua_next(L, table) != 0) {
    const bool named =
        lua_type(L, -2) == LUA_TSTRING && std::string_view(lua_tostring(L, -2)) == "out";
    lua_insert(L, -2);
    if (named && lua_next(L, table) == 0) return true;
  }
  lua_settop(L, top);
  return false;
}

/// The result of mt.map and mt.zip. Its upvalues from the third on: {[n] = the program for n tensor
/// arguments only, which reads no numbers}, the name for errors, and the Lua function for all other
/// calls: it receives whether all arguments are tensors, and the arguments.
int call_compiled(Args& a) {
  lua_State* L = a.L;
  const int given = lua_gettop(L);
  const bool into = given > 1 && lua_istable(L, given) && push_only_out(L, given);
  const int n = given - into;
  bool plain = n > 0;
  for (int k = 1; k <= n && plain; ++k) plain = tensor_at(L, k);
  if (plain && !recording) {  // a recorded call shows its program
    lua_rawgeti(L, lua_upvalueindex(3), n);
    auto* const e = static_cast<ir::Expression*>(lua_touserdata(L, -1));
    lua_pop(L, 1);
    if (e) {
      static constexpr Numbers no_numbers = {};
      TensorList inputs;
      inputs.reserve(n);
      for (int k = 1; k <= n; ++k) inputs.push_back(a.tensor(k));
      const auto results = [&] {
        return ir::apply(*e, lua_tostring(L, lua_upvalueindex(4)), inputs, no_numbers);
      };
      if (!into) return push_all(a, results());
      const auto one = [&] {
        TensorList list = results();
        check_one_result(int(list.size()));
        return list[0];
      };
      return write_into(a, given + 1, std::ref(one));
    }
  }
  lua_settop(L, given);
  lua_pushvalue(L, lua_upvalueindex(5));
  lua_insert(L, 1);
  lua_pushboolean(L, plain && !into);
  lua_insert(L, 2);
  lua_call(L, given + 1, LUA_MULTRET);
  return lua_gettop(L);
}
const Entry kCompiled{"compiled(..)", "A compiled function.", Body(call_compiled) | kKeepsNames};
/// caller(programs, name, function): the function above.
int make_caller(Args& a) {
  lua_State* L = a.L;
  push_closure(L, call, &kCompiled);
  lua_getupvalue(L, -1, 1);
  lua_getupvalue(L, -2, 2);
  for (int i = 1; i <= 3; ++i) lua_pushvalue(L, i);
  lua_pushcclosure(L, call, 5);
  return 1;
}

/// Sets the fields that describe an instruction, in the table at the top.
void set_meaning(const Args& a, const Program& p, const Instruction& c) {
  if (c.op == kInput) a.set("op", "input"), a.set("which", c.which + 1);
  else if (c.op == kNumber) a.set("op", "number"), a.set("which", c.which + 1);
  else if (c.op == kReduce)
    a.set("op", "reduce"), a.set("reduction", reduce_row(c.which).info->name);
  else if (c.op != kConstant) a.set("op", op_row(c.op).info->name);
  else if (a.set("op", "constant"); c.is_bool) a.set("value", c.constant != 0);
  else a.set("value", c.constant);
  lua_newtable(a.L);
  for (int k = 0; k < 3 && c.in[k] >= 0; ++k) {
    lua_pushinteger(a.L, c.in[k] + 1);
    lua_rawseti(a.L, -2, k + 1);
  }
  lua_setfield(a.L, -2, "inputs");
  lua_newtable(a.L);
  for (int k = 0; c.op >= 0 && c.which >= 0 && k < op_row(c.op).params; ++k)
    a.set(op_row(c.op).info->params[k].name, p.params[c.which + k]);
  lua_setfield(a.L, -2, "parameters");
}
/// instructions(program): a list of {op =, inputs = {indices in the list}, parameters = {name =
/// value}, is_bool =}; `op` is an elementwise operation, 'input' or 'number' (`which`), 'constant'
/// (`value`) or 'reduce' (`reduction`). Then the indices of the results.
int instructions(Args& a) {
  const Program& p = expression(a, 1).program();
  push_list(a.L, std::span(p.code, size_t(p.count)), [&](const Instruction& c) {
    lua_newtable(a.L);
    set_meaning(a, p, c);
    a.set("is_bool", c.is_bool);
  });
  push_list(a.L, std::span(p.output, size_t(p.outputs)), [&](int v) { a.push(v + 1); });
  return 2;
}

/// formula(name, {parameter = value}): the program of an elementwise operation's formula, or
/// nothing. A parameter that is not a number becomes one of the program's numbers, at its index.
int formula(Args& a) {
  const int op = op_named(a.text(1));
  if (op < 0) return 0;
  a.table(2);
  double params[op::kMaxParams] = {};
  unsigned unknown = 0;
  for (int k = 0; k < op_row(op).params; ++k) {
    const op::Param& p = op_row(op).info->params[k];
    lua_getfield(a.L, 2, p.name);
    params[k] = lua_isnil(a.L, -1) ? p.value : lua_tonumber(a.L, -1);
    unknown |= unsigned(!lua_isnil(a.L, -1) && !lua_isnumber(a.L, -1)) << k;
    lua_pop(a.L, 1);
  }
  const ir::Expression* const e = ir::formula_of(op, params, unknown);
  if (!e) return 0;
  lua_pushlightuserdata(a.L, const_cast<ir::Expression*>(e));
  return 1;
}

/// A copy of a Lua function with the same lines; upvalues are nil, globals are the state's.
int clone(Args& a) {
  a.function(1);
  std::string code;
  const lua_Writer append = [](lua_State*, const void* p, size_t n, void* to) {
    static_cast<std::string*>(to)->append(static_cast<const char*>(p), n);
    return 0;
  };
  lua_settop(a.L, 1);
  if (lua_dump(a.L, append, &code) != 0) a.wrong(1, "a Lua function");
  if (luaL_loadbuffer(a.L, code.data(), code.size(), "=clone") != 0)
    fail("a function could not be copied: {}", lua_tostring(a.L, -1));
  return 1;
}

const Entry kCompileParts[] = {
    {"caller(..)", "The function that calls programs: programs, name, function.", make_caller},
    {"clone(..)", "A copy of a Lua function.", clone},
    {"builder()", "An empty program.", bind<[] { return std::make_unique<TracedProgram>(); }>},
    {"op(..)", "An operation's value: builder, operation, line, values.., parameters..",
     add_operation},
    {"constant(..)", "A number's or boolean's value: builder, constant.", constant},
    {"leaf(..)", "builder, 'input' or 'number', its index: its value.", leaf},
    {"known(..)", "builder, value: its constant or nil; whether it is a bool.", known},
    {"finish(..)", "builder, {values}, inputs, numbers: the program.", finish},
    {"run(..)", "program, name, numbers or nil, tensors.., out: the results.", run_program},
    {"reduce_pairs(..)", "program or function, numbers or nil, x, dim: the tree of pairs.",
     reduce_pairs},
    {"text(..)", "The program as text.",
     [](Args& a) { return a.push(ir::text_of(expression(a, 1).program())); }},
    {"instructions(..)", "The program's instructions, a list, and the indices of its results.",
     instructions},
    {"formula(..)", "name, {parameter = value}: the program of an operation's formula, or nothing.",
     formula},
    {"cuda_text(..)", "program, dtype, dimensions (0: contiguous): its CUDA C, or nothing.",
     [](Args& a) {
       const Program& p = expression(a, 1).program();
       const std::string text = cuda_text(p, a.dtype(2), int(lua_tointeger(a.L, 3)));
       return text.empty() ? 0 : a.push(text);
     }},
    {"operation(..)", "name: the number of an elementwise operation, its inputs, its parameters.",
     [](Args& a) {
       const int op = op_named(a.text(1));
       if (op < 0) return 0;
       return a.push(op, op_row(op).inputs, op_row(op).params);
     }},
};

// ---- mt.explain ------------------------------------------------------------------------------------

/// facts(program): its operations by name; the values that it reads and writes for an element, and those that its
/// operations would if each ran alone; the sizes from which it is compiled, and run by several threads.
int facts(Args& a) {
  const ir::Expression& e = expression(a, 1);
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
  const ir::Expression& e = expression(a, 1);
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
  const ir::Expression::Gradient& g = expression(a, 1).gradient(unsigned(lua_tointeger(a.L, 2)));
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

void add_compile(lua_State* L) {
  add_internal(L, kCompileParts, Reach::tensors);
  kCompiled.internal = true;
  add_internal(L, kExplain);
  add_replay(L);
}

}  // namespace mt::lua
