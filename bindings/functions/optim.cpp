// optim.cpp -- optimizers for Lua: their list, steps, and their state
#include <cmath>
#include <unordered_map>

#include "bindings/functions/functions.h"
#include "engine/autograd/graph.h"
#include "engine/ops/optim.h"

namespace mt::lua {
namespace {

/// An optimizer that Lua owns.
struct LuaOptim : Optimizer {
  static constexpr char kShown[] = "an optimizer of mt.optim";
  using Optimizer::Optimizer;

  /// Hints at a forgotten zero_grad: at four steps the first gradient is the same tensor, changed once since the step
  /// before. A new gradient has another version, and one that is zeroed in place is changed twice.
  void hint_at_zero_grad() const {
    for (const Group& group : groups())
      for (const Parameter& p : group.parameters) {
        const TensorImpl* const grad = p.value.impl()->grad;
        if (!grad) continue;
        const uint32_t version = grad->storage->version;
        accumulated_ = grad == last_ && version == last_version_ + 1 ? accumulated_ + 1 : 0;
        last_ = grad, last_version_ = version;
        if (accumulated_ == 3)
          hint(
              "step: gradients are added to those of the steps before; call opt:zero_grad() before backward");
        return;
      }
  }

 private:
  mutable const TensorImpl* last_ = nullptr;  // the gradient at the last step
  mutable uint32_t last_version_ = 0;
  mutable int accumulated_ = 0;  // the number of steps for which it has been added to
};

// ---- options ------------------------------------------------------------------------------------

/// The prefix of an error: "Adam", or "Adam: param_groups[2]" if there are several groups.
struct Prefix {
  const char* name;
  size_t group = 0;
  operator std::string() const {
    return group ? fmt::format("{}: param_groups[{}]", name, group) : name;
  }
};

[[noreturn]] void fail_option(lua_State* L, const OptimizerRow& row, const Prefix& where, int i) {
  fail("{}: {} must be {}, got {}", std::string(where), row.info->options[i].name,
       option_range(row, i), describe(L, -1));
}

/// Pushes the keys of the groups of the optimizer at 1: the options and "params".
int push_names(lua_State* L) { return lua_getfenv(L, 1), lua_gettop(L); }

/// Reads the options in the table at `table` in the order of the struct; their keys are at `names`.
void read_options(lua_State* L, const OptimizerRow& row, const Prefix& where, int table, int names,
                  double* out) {
  const int top = lua_gettop(L);
  for (int i = 0; i < row.options; ++i) {
    const optim::Option& o = row.info->options[i];
    lua_rawgeti(L, names, i + 1);
    lua_rawget(L, table);
    const int type = lua_type(L, -1);
    if (row.pair[i]) {
      if (type != LUA_TTABLE || lua_objlen(L, -1) != 2) fail_option(L, row, where, i);
      for (int k = 1; k <= 2; ++k) {
        lua_rawgeti(L, -k, k);
        if (lua_type(L, -1) != LUA_TNUMBER) fail_option(L, row, where, i);
        out[i + k - 1] = lua_tonumber(L, -1);
      }
      ++i;
    } else if (o.flag) {
      if (type != LUA_TBOOLEAN)
        fail("{}: {} must be true or false, got {}", std::string(where), o.name, describe(L, -1));
      out[i] = lua_toboolean(L, -1);
    } else {
      if (type != LUA_TNUMBER) fail_option(L, row, where, i);
      out[i] = lua_tonumber(L, -1);
    }
  }
  lua_settop(L, top);
  if (const std::string sentence = wrong_option(row, out); !sentence.empty())
    fail("{}: {}", std::string(where), sentence);
}

/// Pushes the list `params` of the group on top, with the optimizer's keys at `names`; returns
/// false if it is not a list.
bool push_parameters(lua_State* L, const OptimizerRow& row, int names) {
  if (lua_type(L, -1) != LUA_TTABLE) return false;
  lua_rawgeti(L, names, row.options + 1);
  lua_rawget(L, -2);
  return lua_type(L, -1) == LUA_TTABLE;
}

/// Whether the tables in the list at 2 are the groups of the optimizer at 1; if `options`, reads
/// their options.
bool has_groups(lua_State* L, const LuaOptim& o, bool options) {
  const OptimizerRow& row = o.row();
  std::vector<Optimizer::Group>& groups = o.groups();
  if (lua_type(L, 2) != LUA_TTABLE || lua_objlen(L, 2) != groups.size()) return false;
  lua_settop(L, 2);
  push_names(L);
  for (size_t i = 0; i < groups.size(); ++i) {
    const std::vector<Optimizer::Parameter>& held = groups[i].parameters;
    lua_rawgeti(L, 2, int(i) + 1);
    if (!push_parameters(L, row, 3) || lua_objlen(L, 5) != held.size()) return false;
    for (size_t k = 0; k < held.size(); ++k) {
      lua_rawgeti(L, 5, int(k) + 1);
      const Tensor* const p = tensor_at(L, -1);
      if (!p || p->impl() != held[k].value.impl()) return false;
      lua_settop(L, 5);
    }
    if (options)
      read_options(L, row, {row.info->name, groups.size() > 1 ? i + 1 : 0}, 4, 3,
                   groups[i].options.data());
    lua_settop(L, 3);
  }
  return true;
}

/// Replaces the groups by the list at 2; parameters keep their state.
int take_groups(Args& a) {
  const LuaOptim& o = Userdata<LuaOptim>::at(a, 1);
  std::unordered_map<const TensorImpl*, const Optimizer::Parameter*> held;
  for (const Optimizer::Group& g : o.groups())
    for (const Optimizer::Parameter& p : g.parameters) held[p.value.impl()] = &p;
  a.table(2);
  const size_t n = lua_objlen(a.L, 2);
  std::vector<Optimizer::Group> groups(n);
  const int names = push_names(a.L);
  for (size_t i = 0; i < n; ++i) {
    lua_rawgeti(a.L, 2, int(i) + 1);
    const int group = lua_gettop(a.L);
    a.table(group);
    read_options(a.L, o.row(), {o.row().info->name, n > 1 ? i + 1 : 0}, group, names,
                 groups[i].options.data());
    if (push_parameters(a.L, o.row(), names))
      each_entry(a.L, group + 1, [&](int) {
        const Tensor* const p = tensor_at(a.L, -1);
        if (!p) return;
        const auto known = held.find(p->impl());
        groups[i].parameters.push_back(known == held.end() ? Optimizer::Parameter{*p, {}, {}, {}}
                                                           : *known->second);
      });
    lua_settop(a.L, group - 1);
  }
  o.groups() = std::move(groups);
  return 0;
}

void set_default(Args& a, const OptimizerRow& row, int i) {
  const double* const value = row.defaults + i;
  if (row.info->options[i].flag) a.set("default", *value != 0);
  else if (row.pair[i]) a.set("default", std::vector{value[0], value[1]});
  else a.set("default", *value);
}

int optimizers(Args& a) {
  lua_State* L = a.L;
  lua_createtable(L, optim::kOptimizers, 0);
  for (int rule = 0; rule < optim::kOptimizers; ++rule) {
    const OptimizerRow& row = optimizer_row(rule);
    lua_newtable(L);
    a.set("name", row.info->name), a.set("doc", row.info->doc), a.set("rule", rule);
    lua_newtable(L);
    for (int i = 0; i < row.options; ++i) {
      if (i > 0 && row.pair[i - 1]) continue;
      lua_newtable(L);
      a.set("name", row.info->options[i].name);
      set_default(a, row, i);
      lua_rawseti(L, -2, int(lua_objlen(L, -2)) + 1);
    }
    lua_setfield(L, -2, "options");
    lua_rawseti(L, -2, rule + 1);
  }
  return 1;
}

// ---- state --------------------------------------------------------------------------------------

/// {[i] = {step=, exp_avg=, ..}} for the parameters of a group that have had a step.
int push_state(Args& a) {
  const LuaOptim& o = Userdata<LuaOptim>::at(a, 1);
  const OptimizerRow& row = o.row();
  const int64_t g = a.integer(2);
  if (g < 1 || g > int64_t(o.groups().size()))
    fail("optimizer_state: group {} of {}", g, o.groups().size());
  const std::vector<Optimizer::Parameter>& all = o.groups()[size_t(g) - 1].parameters;
  lua_newtable(a.L);
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].progress.step == 0) continue;
    lua_newtable(a.L);
    a.set("step", all[i].progress.step);
    for (int k = 0; k < row.running; ++k) a.set(row.info->running[k], all[i].progress.running[k]);
    for (int k = 0; k < row.states; ++k) a.set(row.info->states[k].name, all[i].state[k]);
    a.set("master", all[i].master);
    lua_rawseti(a.L, -2, int(i) + 1);
  }
  return 1;
}

/// The number at the top of the stack, which may be a tensor with one element.
double number_at_top(lua_State* L, const std::string& where) {
  const Tensor* const t = tensor_at(L, -1);
  const double x = t && t->numel() == 1 ? t->item() : lua_tonumber(L, -1);
  if (!(t ? t->numel() == 1 : lua_type(L, -1) == LUA_TNUMBER) || !std::isfinite(x))
    fail("{} is {}", where, describe(L, -1));
  return x;
}

/// Throws Error if the state at the top of the stack lacks this entry.
void require_entry(lua_State* L, const std::string& where, const char* key) {
  lua_getfield(L, -1, key);
  if (lua_isnil(L, -1)) fail("{}.{} is missing", where, key);
  lua_pop(L, 1);
}

/// The state of a parameter with this name, or null.
template <class Parameter>
auto* state_named(const OptimizerRow& row, Parameter& p, const std::string& name) {
  for (int k = 0; k < row.states; ++k)
    if (name == row.info->states[k].name) return &p.state[k];
  return name == "master" ? &p.master : nullptr;
}

/// Reads a parameter's state from the table at the top of the stack. A tensor that the optimizer
/// already owns is kept.
Optimizer::Parameter parameter_state(lua_State* L, const OptimizerRow& row,
                                     const Optimizer::Parameter& held, const std::string& where) {
  const Tensor& p = held.value;
  Optimizer::Parameter s{p, {}, {}, {}};
  if (lua_type(L, -1) != LUA_TTABLE) fail("{} must be a table, got {}", where, describe(L, -1));
  each_named(L, lua_gettop(L), [&](const std::string& key) {
    const std::string here = where + '.' + key;
    if (key == "step") {
      s.progress.step = number_at_top(L, here);
      if (!(s.progress.step >= 0 && s.progress.step == std::floor(s.progress.step)))
        fail("{} is {}", here, describe(L, -1));
      return;
    }
    for (int k = 0; k < row.running; ++k)
      if (key == row.info->running[k]) return void(s.progress.running[k] = number_at_top(L, here));
    Tensor* const state = state_named(row, s, key);
    if (!state) fail("{} is not a state of {}", here, row.info->name);
    const Tensor* const t = tensor_at(L, -1);
    if (!t) fail("{} is {}, the parameter {}", here, describe(L, -1), to_string(p.shape()));
    if (!(t->shape() == p.shape()))
      fail("{} is {}, the parameter {}", here, to_string(t->shape()), to_string(p.shape()));
    const NoGrad off;
    const Tensor& mine = *state_named(row, held, key);
    if (mine.defined() && mine.impl()->storage == t->impl()->storage) *state = mine;
    else *state = to(to(clone(t->detach()), p.device()), compute_dtype(p.dtype()));
  });
  require_entry(L, where, "step");
  for (int k = 0; k < row.running; ++k) require_entry(L, where, row.info->running[k]);
  for (int k = 0; k < row.states && s.progress.step > 0; ++k)
    if (row.when[k] < 0) require_entry(L, where, row.info->states[k].name);
  return s;
}

/// Sets the parameters' states from a list with one such list per group; all of them or none.
int load_state(Args& a) {
  const LuaOptim& o = Userdata<LuaOptim>::at(a, 1);
  a.table(2);
  std::vector<Optimizer::Group> groups = o.groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    std::vector<Optimizer::Parameter>& all = groups[g].parameters;
    for (Optimizer::Parameter& p : all) p = {p.value, {}, {}, {}};
    lua_rawgeti(a.L, 2, int(g) + 1);
    const int list = lua_gettop(a.L);
    a.table(list);
    for (lua_pushnil(a.L); lua_next(a.L, list); lua_pop(a.L, 1)) {
      const std::string where =
          fmt::format("load_state_dict: group {}.state[{}]", g + 1, describe(a.L, -2));
      const double i = lua_type(a.L, -2) == LUA_TNUMBER ? lua_tonumber(a.L, -2) : 0;
      if (!(i >= 1 && i <= double(all.size()) && i == std::floor(i)))
        fail("{} does not belong to a parameter", where);
      Optimizer::Parameter& p = all[size_t(i) - 1];
      p = parameter_state(a.L, o.row(), o.groups()[g].parameters[size_t(i) - 1], where);
    }
    lua_pop(a.L, 1);
  }
  o.groups() = std::move(groups);
  return 0;
}

const Entry kOptim[] = {
    {"zero_grad([parameters])", "Drops the gradients of a list of tensors.",
     [](Args& a) {
       a.table(1);
       each_entry(a.L, 1, [&](int) {
         if (const Tensor* t = tensor_at(a.L, -1)) t->set_grad({});
       });
       return 0;
     }},
    {"optimizers()", "The optimizers: name, doc, rule, and options with their defaults.",
     optimizers},
    {"optimizer(rule)", "An optimizer without parameters.",
     [](Args& a) {
       const int64_t rule = a.integer(1);
       if (rule < 0 || rule >= optim::kOptimizers) fail("optimizer: there is no rule {}", rule);
       const LuaOptim& o = *Userdata<LuaOptim>::push(a.L, std::make_unique<LuaOptim>(int(rule)));
       lua_createtable(a.L, o.row().options + 1, 0);  // the keys of groups, used by each step
       for (int i = 0; i < o.row().options; ++i) {
         lua_pushstring(a.L, o.row().info->options[i].name);
         lua_rawseti(a.L, -2, i + 1);
       }
       lua_pushliteral(a.L, "params");
       lua_rawseti(a.L, -2, o.row().options + 1);
       lua_setfenv(a.L, -2);
       return 1;
     }},
    {"optimizer_check(optimizer, options, where)", "Refuses options that a group cannot have.",
     [](Args& a) {
       double options[optim::kMaxOptions];
       a.table(2);
       read_options(a.L, Userdata<LuaOptim>::at(a, 1).row(), {a.text(3).c_str()}, 2,
                    push_names(a.L), options);
       return 0;
     }},
    {"optimizer_add(optimizer, options, parameters)", "Adds a group.",
     [](Args& a) {
       const LuaOptim& o = Userdata<LuaOptim>::at(a, 1);
       double options[optim::kMaxOptions];
       a.table(2);
       read_options(a.L, o.row(), {o.row().info->name}, 2, push_names(a.L), options);
       o.add_group(a.tensors(3), options);
       return 0;
     }},
    {"optimizer_has(optimizer, groups)", "Whether the groups have the parameters of the optimizer.",
     [](Args& a) { return a.push(has_groups(a.L, Userdata<LuaOptim>::at(a, 1), false)); }},
    {"optimizer_options(optimizer, groups)", "Reads the options of the groups.",
     [](Args& a) {
       const LuaOptim& o = Userdata<LuaOptim>::at(a, 1);
       if (!has_groups(a.L, o, true))
         fail("replay: the parameters of {} are not the recorded ones; record the graph again",
              o.row().info->name);
       return 0;
     }},
    {"optimizer_step(optimizer, groups, sparse)",
     "Reads the options and takes a step; false if the groups have other parameters. sparse: a list of parameter, "
     "rows, values, parameter, ..",
     [](Args& a) {
       const LuaOptim& o = Userdata<LuaOptim>::at(a, 1);
       std::vector<RowGradient> sparse;
       if (lua_istable(a.L, 3)) {
         const TensorList list = a.tensors(3);
         for (size_t i = 0; i < list.size(); i += 3)
           sparse.push_back({list[i], Index(list[i + 1], 1), list[i + 2]});
       }
       const bool same = has_groups(a.L, o, true);
       if (same) o.hint_at_zero_grad(), o.step(sparse);
       return a.push(same);
     }},
    {"optimizer_take(optimizer, groups)", "Replaces the groups; parameters keep their state.",
     take_groups},
    {"optimizer_state(optimizer, group)", "A list of {step=, exp_avg=, ..}.", push_state},
    {"grad_norm([parameters], norm_type)", "The norm of all gradients.", bind<grad_norm>},
    {"clip_grad_norm_([parameters], max_norm, norm_type=2, error_if_nonfinite=false, norm=nil)",
     "As in nn.utils; with the norm of the gradients, if it is given.", bind<clip_grad_norm_>},
    {"clip_grad_value_([parameters], clip_value)", "As in nn.utils.", bind<clip_grad_value_>},
    {"optimizer_load(optimizer, states)", "Sets the states of all groups from a list.", load_state},
};

}  // namespace

void add_optim(lua_State* L) { add_internal(L, kOptim, Reach::tensors); }

}  // namespace mt::lua
