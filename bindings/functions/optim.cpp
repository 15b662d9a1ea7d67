// optim.cpp -- what Lua asks of optimizers: the list of them, steps, and their state
#include <cmath>
#include <cstring>

#include "bindings/core/held.h"
#include "bindings/functions/functions.h"
#include "engine/autograd/graph.h"
#include "engine/ops/optim.h"

namespace mt::lua {
namespace {

/// What Lua holds of an optimizer.
struct Owned : Optimizer {
  static constexpr char kShown[] = "an optimizer of mt.optim";
  using Optimizer::Optimizer;
};

// ---- options --------------------------------------------------------------------------------------

/// What an error begins with: "Adam", or "Adam: param_groups[2]" where there are several.
struct Where {
  const char* name;
  size_t group = 0;
  operator std::string() const {
    return group ? fmt::format("{}: param_groups[{}]", name, group) : name;
  }
};

[[noreturn]] void wrong_list(const OptimizerRow& row, const Where& where, int i) {
  const optim::Option& o = row.info->options[i];
  fail("{}: {} must be two numbers in [{}, {}{}, such as {{{}, {}}}", std::string(where), o.name,
       o.least, o.most, o.below ? ")" : "]", row.defaults[i], row.defaults[i + 1]);
}

/// The options in the table at `table`, as the struct has them, of the optimizer at 1.
void read_options(lua_State* L, const OptimizerRow& row, const Where& where, int table,
                  double* out) {
  const int top = lua_gettop(L), names = top + 1;
  lua_getfenv(L, 1);
  for (int i = 0; i < row.options; ++i) {
    const optim::Option& o = row.info->options[i];
    lua_rawgeti(L, names, i + 1);
    lua_rawget(L, table);
    const int type = lua_type(L, -1);
    if (row.pair[i]) {
      if (type != LUA_TTABLE || lua_objlen(L, -1) != 2) wrong_list(row, where, i);
      for (int k = 1; k <= 2; ++k) {
        lua_rawgeti(L, -k, k);
        if (lua_type(L, -1) != LUA_TNUMBER) wrong_list(row, where, i);
        out[i + k - 1] = lua_tonumber(L, -1);
      }
      ++i;
    } else if (o.flag) {
      if (type != LUA_TBOOLEAN)
        fail("{}: {} must be true or false, got {}", std::string(where), o.name, describe(L, -1));
      out[i] = lua_toboolean(L, -1);
    } else {
      if (type != LUA_TNUMBER)
        fail("{}: {} must be a finite number{}, got {}", std::string(where), o.name,
             o.least < 0 ? "" : fmt::format(" from {}", o.least), describe(L, -1));
      out[i] = lua_tonumber(L, -1);
    }
  }
  lua_settop(L, top);
  if (const std::string wrong = wrong_option(row, out); !wrong.empty())
    fail("{}: {}", std::string(where), wrong);
}

/// Takes the options of the groups over, which are the tables in the list at `list`.
const Owned& with_options(Args& a, int list) {
  const Owned& o = Held<Owned>::at(a, 1);
  std::vector<Optimizer::Group>& groups = o.groups();
  a.table(list);
  for (size_t i = 0; i < groups.size(); ++i) {
    lua_rawgeti(a.L, list, int(i) + 1);
    const int group = lua_gettop(a.L);
    a.table(group);
    read_options(a.L, o.row(), {o.row().info->name, groups.size() > 1 ? i + 1 : 0}, group,
                 groups[i].options.data());
    lua_pop(a.L, 1);
  }
  return o;
}

void push_default(lua_State* L, const OptimizerRow& row, int i) {
  if (row.info->options[i].flag) return lua_pushboolean(L, row.defaults[i] != 0);
  lua_pushnumber(L, row.defaults[i]);
  if (!row.pair[i]) return;
  lua_createtable(L, 2, 0);
  lua_insert(L, -2);
  lua_rawseti(L, -2, 1);
  lua_pushnumber(L, row.defaults[i + 1]);
  lua_rawseti(L, -2, 2);
}

int optimizers(Args& a) {
  lua_State* L = a.L;
  lua_createtable(L, optim::kOptimizers, 0);
  for (int rule = 0; rule < optim::kOptimizers; ++rule) {
    const OptimizerRow& row = optimizer_row(rule);
    lua_newtable(L);
    a.push(std::string(row.info->name)), lua_setfield(L, -2, "name");
    a.push(std::string(row.info->doc)), lua_setfield(L, -2, "doc");
    a.push(double(rule)), lua_setfield(L, -2, "rule");
    lua_newtable(L);
    for (int i = 0; i < row.options; ++i) {
      if (i > 0 && row.pair[i - 1]) continue;
      lua_newtable(L);
      a.push(std::string(row.info->options[i].name)), lua_setfield(L, -2, "name");
      push_default(L, row, i), lua_setfield(L, -2, "default");
      lua_rawseti(L, -2, int(lua_objlen(L, -2)) + 1);
    }
    lua_setfield(L, -2, "options");
    lua_rawseti(L, -2, rule + 1);
  }
  return 1;
}

// ---- state ----------------------------------------------------------------------------------------

/// {[i] = {step=, exp_avg=, ..}} of a group, of the parameters that have had a step.
int push_state(Args& a) {
  const Owned& o = Held<Owned>::at(a, 1);
  const OptimizerRow& row = o.row();
  const std::vector<Optimizer::Parameter>& all = o.groups().at(size_t(a.integer(2) - 1)).parameters;
  lua_newtable(a.L);
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].progress.step == 0) continue;
    lua_newtable(a.L);
    a.push(all[i].progress.step), lua_setfield(a.L, -2, "step");
    for (int k = 0; k < row.running; ++k)
      a.push(all[i].progress.running[k]), lua_setfield(a.L, -2, row.info->running[k]);
    for (int k = 0; k < row.states; ++k) {
      push_tensor(a.L, all[i].state[k]);
      lua_setfield(a.L, -2, row.info->states[k].name);
    }
    lua_rawseti(a.L, -2, int(i) + 1);
  }
  return 1;
}

/// A number, or a tensor of one, at the top of the stack.
double number_at_top(lua_State* L, const std::string& where) {
  const Tensor* const t = tensor_at(L, -1);
  const double x = t && t->numel() == 1 ? t->item() : lua_tonumber(L, -1);
  if (!(t ? t->numel() == 1 : lua_type(L, -1) == LUA_TNUMBER))
    fail("{} is {}", where, describe(L, -1));
  return x;
}

/// The state in the table at the top of the stack, for a parameter.
Optimizer::Parameter parameter_state(lua_State* L, const OptimizerRow& row, const Tensor& p,
                                     const std::string& where) {
  Optimizer::Parameter s{p, {}, {}};
  if (lua_type(L, -1) != LUA_TTABLE) fail("{} must be a table, got {}", where, describe(L, -1));
  each_named(L, lua_gettop(L), [&](const std::string& key) {
    const std::string here = where + '.' + key;
    if (key == "step") {
      s.progress.step = number_at_top(L, here);
      if (!(s.progress.step >= 0 && s.progress.step == std::floor(s.progress.step) &&
            std::isfinite(s.progress.step)))
        fail("{} is {}", here, describe(L, -1));
      return;
    }
    for (int k = 0; k < row.running; ++k)
      if (key == row.info->running[k]) return void(s.progress.running[k] = number_at_top(L, here));
    for (int k = 0; k < row.states; ++k) {
      if (key != row.info->states[k].name) continue;
      const Tensor* const t = tensor_at(L, -1);
      if (!t) fail("{} is {}, the parameter {}", here, describe(L, -1), to_string(p.shape()));
      if (!(t->shape() == p.shape()))
        fail("{} is {}, the parameter {}", here, to_string(t->shape()), to_string(p.shape()));
      const NoGrad off;
      s.state[k] = to(to(clone(t->detach()), p.device()), wide(p.dtype()));
      return;
    }
    fail("{} is no state of {}", here, row.info->name);
  });
  return s;
}

/// Gives parameters the state of a list of such lists, one for each group; all of it or nothing.
int load_state(Args& a) {
  const Owned& o = Held<Owned>::at(a, 1);
  std::vector<Optimizer::Group> groups = o.groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    std::vector<Optimizer::Parameter>& all = groups[g].parameters;
    for (Optimizer::Parameter& p : all) p = {p.value, {}, {}};
    lua_rawgeti(a.L, 2, int(g) + 1);
    const int list = lua_gettop(a.L);
    a.table(list);
    for (lua_pushnil(a.L); lua_next(a.L, list); lua_pop(a.L, 1)) {
      const std::string where =
          fmt::format("load_state_dict: group {}.state[{}]", g + 1, describe(a.L, -2));
      const double i = lua_type(a.L, -2) == LUA_TNUMBER ? lua_tonumber(a.L, -2) : 0;
      if (!(i >= 1 && i <= double(all.size()) && i == std::floor(i)))
        fail("{} belongs to no parameter", where);
      Optimizer::Parameter& p = all[size_t(i) - 1];
      p = parameter_state(a.L, o.row(), p.value, where);
    }
    lua_pop(a.L, 1);
  }
  o.groups() = std::move(groups);
  return 0;
}

const Entry kOptim[] = {
    {"optimizers()", "The optimizers: name, doc, rule, and options with their defaults.",
     optimizers},
    {"optimizer(rule)", "One without parameters.",
     [](Args& a) {
       const Owned& o = *Held<Owned>::push(a.L, std::make_unique<Owned>(int(a.integer(1))));
       lua_createtable(a.L, o.row().options, 0);  // the names of options, which a step looks up
       for (int i = 0; i < o.row().options; ++i) {
         lua_pushstring(a.L, o.row().info->options[i].name);
         lua_rawseti(a.L, -2, i + 1);
       }
       lua_setfenv(a.L, -2);
       return 1;
     }},
    {"optimizer_check(optimizer, options, where)", "Refuses options that a group cannot have.",
     [](Args& a) {
       double options[optim::kMaxOptions];
       a.table(2);
       read_options(a.L, Held<Owned>::at(a, 1).row(), {a.text(3).c_str()}, 2, options);
       return 0;
     }},
    {"optimizer_add(optimizer, options, parameters)", "One more group.",
     [](Args& a) {
       const Owned& o = Held<Owned>::at(a, 1);
       double options[optim::kMaxOptions];
       a.table(2);
       read_options(a.L, o.row(), {o.row().info->name}, 2, options);
       o.add_group(a.tensors(3), options);
       return 0;
     }},
    {"optimizer_options(optimizer, groups)", "Takes the options of the groups over.",
     [](Args& a) {
       with_options(a, 2);
       return 0;
     }},
    {"optimizer_step(optimizer, groups)", "The same, and a step.",
     [](Args& a) {
       with_options(a, 2).step();
       return 0;
     }},
    {"optimizer_state(optimizer, group)", "Of each parameter {step=, exp_avg=, ..}.", push_state},
    {"optimizer_load(optimizer, states)", "Takes such lists over, one for each group.", load_state},
};

}  // namespace

void add_optim(lua_State* L) {
  for (const Entry& e : kOptim) e.internal = true;
  add(L, kOptim);
}

}  // namespace mt::lua
