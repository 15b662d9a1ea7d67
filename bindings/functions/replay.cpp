// replay.cpp -- mt.compile's recorder and replays, for bindings/lua/compile/step.lua
#include "engine/compile/replay.h"

#include "bindings/core/held.h"
#include "bindings/functions/functions.h"

namespace mt::lua {
namespace {

struct Recording final : StepRecorder {
  static constexpr char kShown[] = "a recording of a step";
  using StepRecorder::StepRecorder;
};
struct Step {
  static constexpr char kShown[] = "a recorded step";
  std::unique_ptr<StepReplay> replay;
};
StepReplay& step_at(const Args& a) { return *Held<Step>::at(a, 1).replay; }

std::vector<Tensor> rest(const Args& a) {
  std::vector<Tensor> list;
  for (int i = 2; i <= lua_gettop(a.L); ++i)
    if (const Tensor* t = tensor_at(a.L, i)) list.push_back(*t);
  return list;
}

std::vector<double> number_list(const Args& a, int i) {
  std::vector<double> list(lua_objlen(a.L, i));
  for (size_t k = 0; k < list.size(); ++k) {
    lua_rawgeti(a.L, i, int(k) + 1);
    list[k] = lua_tonumber(a.L, -1);
    lua_pop(a.L, 1);
  }
  return list;
}

const Entry kReplay[] = {
    {"step_record([inputs], [arguments], fuse)",
     "Begins a recording with copies of the arguments, without Lua's collector. fuse: 0 no, 1 yes, 2 where "
     "the step has numbers among its arguments.",
     [](Args& a) {
       Held<Recording>::push(a.L, std::make_unique<Recording>(a.tensors(1), a.tensors(2),
                                                              StepFusion(lua_tointeger(a.L, 3))));
       lua_gc(a.L, LUA_GCSTOP, 0);
       return 1;
     }},
    {"step_pause(r)", "What follows is not recorded.",
     [](Args& a) { return Held<Recording>::at(a, 1).pause(), 0; }},
    {"step_resume(r)", "What follows is recorded, as a part of its own.",
     [](Args& a) { return Held<Recording>::at(a, 1).resume(), 0; }},
    {"step_finish(r, [results])", "The recorded step; or nil, and why there is none.",
     [](Args& a) {
       lua_gc(a.L, LUA_GCRESTART, 0);
       Recording& r = Held<Recording>::at(a, 1);
       std::unique_ptr<StepReplay> made = r.finish(a.tensors(2));
       if (!made) return lua_pushnil(a.L), 1 + a.push(r.why());
       Held<Step>::push(a.L, std::make_unique<Step>(Step{std::move(made)}));
       return 1;
     }},
    {"step_drop(r)", "Ends a recording that came to nothing.",
     [](Args& a) {
       lua_gc(a.L, LUA_GCRESTART, 0);
       Held<Recording>::at(a, 1);
       static_cast<Held<Recording>*>(lua_touserdata(a.L, 1))->object.reset();
       return 0;
     }},
    {"step_start(..)",
     "step, tensors: whether it is of such tensors and nothing moved; copies them in. Then "
     "whether it would change one of them.",
     [](Args& a) {
       StepReplay& s = step_at(a);
       const std::vector<Tensor> given = rest(a);
       bool fits = given.size() == s.inputs() && s.fits();
       bool written = false;
       for (size_t k = 0; k < given.size() && fits; ++k) {
         written |= s.writes(given[k]);
         fits = s.takes(k, given[k]) && !written;
       }
       if (fits) s.start(given);
       return a.push(fits) + a.push(written);
     }},
    {"step_run(step, part)", "Repeats the calls of a part; false where a position was not there.",
     [](Args& a) { return a.push(step_at(a).run(size_t(lua_tointeger(a.L, 2)))); }},
    {"step_end(step)", "Its results, copied.",
     [](Args& a) { return push_all(a, step_at(a).finish()); }},
    {"step_changes(step)", "The tensors from outside that it changes.",
     [](Args& a) { return push_list(a, step_at(a).changes()); }},
    {"step_leaves(step)", "The tensors whose gradients it sets.",
     [](Args& a) { return push_list(a, step_at(a).leaves()); }},
    {"step_hold(step)", "Keeps the gradients of now.",
     [](Args& a) { return step_at(a).hold_grads(), 0; }},
    {"step_restore(step)", "Puts them back.",
     [](Args& a) { return step_at(a).restore_grads(), 0; }},
    {"step_find_numbers(step, other, {mine}, {theirs})",
     "Which of the numbers its calls hold where they differ from the other's, counted from 1, and "
     "whether integers become floats; nil, and why it is not they alone that differ.",
     [](Args& a) {
       std::string why;
       const StepReplay& other = *Held<Step>::at(a, 2).replay;
       const std::vector<int> used =
           step_at(a).find_numbers(other, number_list(a, 3), number_list(a, 4), why);
       if (used.empty()) return lua_pushnil(a.L), 1 + a.push(why);
       lua_createtable(a.L, int(used.size()), 0);
       for (size_t k = 0; k < used.size(); ++k) {
         lua_pushinteger(a.L, used[k] + 1);
         lua_rawseti(a.L, -2, int(k) + 1);
       }
       return 1 + a.push(step_at(a).mixes_dtypes());
     }},
    {"step_set_numbers(step, {values})", "Puts others there.",
     [](Args& a) { return step_at(a).set_numbers(number_list(a, 2)), 0; }},
    {"step_fused(step)", "A line on each program that its calls were joined to.",
     [](Args& a) {
       const std::vector<std::string>& lines = step_at(a).fused();
       lua_createtable(a.L, int(lines.size()), 0);
       for (size_t k = 0; k < lines.size(); ++k) {
         a.push(lines[k]);
         lua_rawseti(a.L, -2, int(k) + 1);
       }
       return 1;
     }},
    {"step_facts(step)",
     "How many parts, calls and buffers it has, their bytes before and after planning.",
     [](Args& a) {
       const StepReplay::Facts f = step_at(a).facts();
       int n = 0;
       for (size_t x : {f.parts, f.calls, f.buffers, f.bytes, f.planned}) n += a.push(double(x));
       return n;
     }},
};

}  // namespace

void see_arguments(lua_State* L) {
  StepRecorder* const r = StepRecorder::current();
  for (int i = lua_gettop(L); i > 0; --i) {
    if (const Tensor* t = tensor_at(L, i)) r->see(*t);
    if (!lua_istable(L, i)) continue;
    for (int k = 1, n = int(lua_objlen(L, i)); k <= n; ++k) {
      lua_rawgeti(L, i, k);
      if (const Tensor* t = tensor_at(L, -1)) r->see(*t);
      lua_pop(L, 1);
    }
  }
}

void add_replay(lua_State* L) {
  for (const Entry& e : kReplay) e.internal = true;
  add(L, kReplay);
}

}  // namespace mt::lua
