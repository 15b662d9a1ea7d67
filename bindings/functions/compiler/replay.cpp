// replay.cpp -- recorded steps of mt.compile and functions of mt.fuse, for bindings/lua/compile/step.lua and fuse.lua
#include "bindings/core/callback.h"
#include "bindings/functions/functions.h"
#include "engine/autograd/function.h"
#include "engine/compiler/record/recorded_function.h"
#include "engine/compiler/record/step_fuse.h"
#include "engine/ops/generator.h"

namespace mt::lua {

namespace {

struct LuaStepRecorder final : StepRecorder {
  static constexpr char kShown[] = "a recording of a step";
  using StepRecorder::StepRecorder;
};
LuaStepRecorder& recorder(const Args& a, int i) { return Userdata<LuaStepRecorder>::at(a, i); }

struct ReplayHandle {
  static constexpr char kShown[] = "a recorded step";
  std::unique_ptr<StepReplay> replay;
};
StepReplay& step_at(const Args& a) { return *Userdata<ReplayHandle>::at(a, 1).replay; }

/// The modes that affect operations: gradients (bits 0 and 1), mixed precision, the precision of products,
/// the default dtype and device. Nil during capture and with set_debug: the step then runs eagerly.
int mode_of_thread(Args& a) {
  const ThreadState& t = thread_state;
  if (capturing || t.debugging || recording) return lua_pushnil(a.L), 1;
  const Device& d = default_device();
  int64_t mode = 1 + cuda_index(d);
  for (const Dtype dtype : {t.autocast.cpu, t.autocast.cuda, t.dtype})
    mode = mode * 32 + int(dtype);
  mode = mode * 4 + int(t.matmul_precision);
  return a.push(mode * 4 + t.zero_gradients * 2 + t.grad_enabled);
}

const Entry kReplay[] = {
    {"step_mode()",
     "A number for the modes that affect operations; nil while a graph or calls are recorded, or with "
     "set_debug.",
     mode_of_thread},
    {"step_record([inputs], is_function=false)",
     "Begins a recording with copies of the arguments, without Lua's collector.",
     [](Args& a) {
       const auto kind =
           lua_toboolean(a.L, 2) ? StepRecorder::Kind::function : StepRecorder::Kind::step;
       if (!dynamic_cast<StepRecorder*>(step_recorder)) step_recorder = nullptr;
       Userdata<LuaStepRecorder>::push(a.L, std::make_unique<LuaStepRecorder>(a.tensors(1), kind));
       lua_gc(a.L, LUA_GCSTOP, 0);
       return 1;
     }},
    {"step_pause(r)", "Pauses the recording.", bind<[](LuaStepRecorder& r) { r.pause(); }>},
    {"step_resume(r)", "Records again, as the next part.",
     bind<[](LuaStepRecorder& r) { r.resume(); }>},
    {"step_finish(r, [results], [stepped])",
     "The recorded step, whose parts end where optimizers change `stepped`; or nil, and why.",
     [](Args& a) {
       lua_gc(a.L, LUA_GCRESTART, 0);
       LuaStepRecorder& r = recorder(a, 1);
       std::unique_ptr<StepReplay> made = r.finish(a.tensors(2), a.tensors(3));
       if (!made) return lua_pushnil(a.L), 1 + a.push(r.why());
       Userdata<LuaStepRecorder>::collect(a.L);
       make_room();  // what only the eager step used, before the replay uses its own memory
       Userdata<ReplayHandle>::push(a.L,
                                    std::make_unique<ReplayHandle>(ReplayHandle{std::move(made)}));
       return 1;
     }},
    {"step_on_arguments([results], [inputs], [arguments])",
     "The results as views of the arguments where they are views of their copies, the inputs.",
     bind<on_arguments>},
    {"step_memory(x)", "The address of the storage of x, as a number; views share it.",
     bind<[](const Tensor& x) { return int64_t(uintptr_t(x.impl()->storage->data)); }>},
    {"step_drop(r)", "Ends a recording and discards it; returns why the recorder ended it, or nil.",
     [](Args& a) {
       lua_gc(a.L, LUA_GCRESTART, 0);
       const StepRecorder& r = recorder(a, 1);
       if (r.ended()) a.push(r.why());
       else lua_pushnil(a.L);
       Userdata<LuaStepRecorder>::collect(a.L);
       return 1;
     }},
    {"step_start(..)",
     "step, tensors: whether it is of such tensors and nothing moved; copies them in. Then "
     "whether it would change one of them.",
     [](Args& a) {
       StepReplay& s = step_at(a);
       const TensorList given = tensors_from(a, 2);
       const bool takes = s.fits() && s.takes(given), written = takes && s.writes(given);
       if (takes && !written) s.start(given);
       return a.push(takes && !written, written);
     }},
    {"step_run(step, part)", "Repeats the calls of a part; false where a position was not there.",
     bind<[](ReplayHandle& s, int64_t part) { return s.replay->run(part); }>},
    {"step_end(step)", "Copies of the results of the step.",
     [](Args& a) { return push_all(a, step_at(a).finish()); }},
    {"step_changes(step)", "The tensors from outside that it changes.",
     bind<[](ReplayHandle& s) { return s.replay->changes(); }>},
    {"step_leaves(step)", "The tensors whose gradients it sets.",
     bind<[](ReplayHandle& s) { return s.replay->leaves(); }>},
    {"step_hold(step, [changed])",
     "Saves the current gradients, and the versions of tensors that change.",
     bind<[](ReplayHandle& s, const TensorList& changed) { s.replay->hold(changed); }>},
    {"step_restore(step)", "Undoes step_hold.", bind<[](ReplayHandle& s) { s.replay->restore(); }>},
    {"step_exchanges()", "The number of exchanges with other processes.", bind<exchange_count>},
    {"step_skip_exchanges(skips)", "Whether these are left out.", bind<skip_exchanges>},
    {"step_fused(step)", "A line for each fused program of the step.",
     bind<[](ReplayHandle& s) { return s.replay->fused(); }>},
    {"step_facts(step)",
     "How many parts, calls and buffers it has, their bytes before and after planning, how many parts are graphs.",
     bind<[](ReplayHandle& s) { return s.replay->statistics(); }>},
};

// ---- mt.fuse ---------------------------------------------------------------------------------------

/// The gradients of a recorded function: a function of its inputs and of the gradients of those results
/// that are not plain. Its results are the gradients of the inputs and captured tensors in `wanted`.
struct Gradients {
  std::unique_ptr<RecordedFunction> function;
  TensorList captured;
  std::vector<bool> plain;
  std::vector<int> wanted;  // input, or number of inputs + captured tensor, from 0
  std::weak_ptr<Callback> differentiable = {};  // computes the same by operations
};
struct Fused {
  static constexpr char kShown[] = "a recorded function";
  std::unique_ptr<RecordedFunction> function;
  std::shared_ptr<Gradients> gradients = nullptr;  // null: no result has one
};

/// Calls differentiable([inputs], [gradients]) in Lua: a list of gradients, with false for none.
TensorList call_differentiable(const Callback& callback, const TensorList& inputs,
                               const TensorList& gradients) {
  lua_State* L = current_state();
  if (!L || !lua_checkstack(L, 16) || !callback.push(L))
    fail("fuse: the function is gone, so that its gradient cannot be computed");
  const int top = lua_gettop(L) - 1;
  for (const TensorList* list : {&inputs, &gradients})
    push_list(L, *list, [&](const Tensor& x) { push_tensor(L, x); });
  lua_call(L, 2, 1);
  TensorList found;
  each_entry(L, lua_gettop(L), [&](int) {
    const Tensor* const t = tensor_at(L, -1);
    found.push_back(t ? *t : Tensor());
  });
  lua_settop(L, top);
  return found;
}

TensorList gradients_of(Gradients& g, const Callback& differentiable, size_t inputs,
                        uint64_t random_begin, const TensorList& incoming) {
  const TensorList saved = saved_tensors();
  TensorList given(saved.begin(), saved.begin() + ptrdiff_t(inputs)), by_result;
  for (size_t k = 0; k < incoming.size(); ++k)
    if (!g.plain[k]) by_result.push_back(incoming[k]);
  if (!grad_enabled()) {
    for (const Tensor& x : by_result) given.push_back(contiguous(x));
    given.insert(given.end(), saved.end() - ptrdiff_t(g.function->saved()), saved.end());
    if (g.function->fits(given)) {
      if (const auto found = g.function->run(given, random_begin)) {
        TensorList dx(saved.size());
        for (size_t k = 0; k < found->size(); ++k) dx[size_t(g.wanted[k])] = (*found)[k];
        return dx;
      }
    }
    given.resize(inputs);
  }
  Generator& random = default_generator();
  const uint64_t now = random.counter();
  random.set_counter(random_begin);
  TensorList dx = call_differentiable(differentiable, given, by_result);
  random.set_counter(now);
  return dx;
}

TensorList record_gradients(lua_State* L, const std::shared_ptr<Gradients>& g,
                            const TensorList& inputs, const TensorList& results,
                            const TensorList& intermediate, uint64_t random_begin) {
  TensorList all = inputs;
  all.insert(all.end(), g->captured.begin(), g->captured.end());
  std::shared_ptr<Callback> differentiable = g->differentiable.lock();
  if (!differentiable) g->differentiable = differentiable = std::make_shared<Callback>(L, 2);
  TensorList save = all;
  save.insert(save.end(), intermediate.begin(), intermediate.end());
  return record_function("mt.fuse", all, results, g->plain, save,
                         [=, n = inputs.size()](const TensorList& incoming) {
                           return gradients_of(*g, *differentiable, n, random_begin, incoming);
                         });
}

/// function_call(function, differentiable, itself, arguments..): the results that are tensors; those of
/// itself(arguments..), which may raise an error, if an index is out of bounds.
int call_function(Args& a) {
  lua_State* L = a.L;
  Fused& f = Userdata<Fused>::at(a, 1);
  const TensorList inputs = tensors_from(a, 4);
  Generator& random = default_generator();
  const uint64_t begin = random.counter();
  std::optional<TensorList> results = f.function->run(inputs, begin);
  if (!results) {
    lua_call(L, lua_gettop(L) - 3, LUA_MULTRET);
    return lua_gettop(L) - 2;
  }
  random.set_counter(begin + f.function->draws());
  const auto last = results->end() - ptrdiff_t(f.function->saved());
  const TensorList intermediate(last, results->end());
  results->erase(last, results->end());
  if (grad_enabled() && f.gradients)
    *results = record_gradients(L, f.gradients, inputs, *results, intermediate, begin);
  return push_all(a, *results);
}

/// Refuses reads of elements in a fused function that runs eagerly.
struct NumberGuard final : StepListener {
  bool asked = false;
  void on_element_read(const std::string& by) override {
    if (!by.empty()) return;
    asked = true;  // it is an error even if the function catches it
    StepRecorder::refuse_number(StepRecorder::Kind::function);
  }
  void on_exchange(const Exchange& e) override { e.run(e.in, e.out); }
};

/// function_eagerly(fn, ..): fn(..), which cannot read elements of tensors.
int call_eagerly(Args& a) {
  a.function(1);
  if (step_recorder) return lua_call(a.L, a.count() - 1, LUA_MULTRET), lua_gettop(a.L);
  NumberGuard guard;
  {
    const SaveAndRestore<StepListener*> here(step_recorder, &guard);
    lua_call(a.L, a.count() - 1, LUA_MULTRET);
  }
  if (guard.asked) StepRecorder::refuse_number(StepRecorder::Kind::function);
  return lua_gettop(a.L);
}

const Entry kFuse[] = {
    {"function_eagerly(..)", "fn, arguments..: its results; it cannot read elements of tensors.",
     Body(call_eagerly) | kKeepsNames},
    {"function_fits(..)", "function, arguments..: whether it is of such tensors.",
     [](Args& a) { return a.push(Userdata<Fused>::at(a, 1).function->fits(tensors_from(a, 2))); }},
    {"function_call(..)",
     "function, differentiable, itself, arguments..: the tensors among the results.",
     Body(call_function) | kKeepsNames},
    {"function_finish(r, [results], saves)",
     "The recorded function; or nil, and why there is none. saves: it gives intermediate results to its "
     "gradient, or it is that gradient.",
     [](Args& a) {
       lua_gc(a.L, LUA_GCRESTART, 0);
       StepRecorder& r = recorder(a, 1);
       std::unique_ptr<RecordedFunction> made =
           r.finish_function(a.tensors(2), lua_toboolean(a.L, 3));
       if (!made) return lua_pushnil(a.L), 1 + a.push(r.why());
       Userdata<Fused>::push(a.L, std::make_unique<Fused>(Fused{std::move(made)}));
       return 1;
     }},
    {"function_captured(r)", "The captured tensors that require a gradient.",
     [](Args& a) { return a.push(recorder(a, 1).captured_with_gradient()); }},
    {"function_gradient(r)", "What follows computes gradients.",
     [](Args& a) { return recorder(a, 1).begin_gradient(), 0; }},
    {"function_set_gradient(function, gradient, [captured], plain, wanted)",
     "gradient: a recorded function. plain[k]: result k has no gradient. wanted: for each of the "
     "gradient's results the input, or the captured tensor after all inputs, from 1. False if the "
     "two recordings have other calls.",
     [](Args& a) {
       auto g = std::make_shared<Gradients>();
       g->function = std::move(Userdata<Fused>::at(a, 2).function);
       if (g->function->saved() != Userdata<Fused>::at(a, 1).function->saved())
         return a.push(false);
       g->captured = a.tensors(3);
       each_entry(a.L, 4, [&](int) { g->plain.push_back(lua_toboolean(a.L, -1)); });
       each_entry(a.L, 5, [&](int) { g->wanted.push_back(int(lua_tointeger(a.L, -1)) - 1); });
       Userdata<Fused>::at(a, 1).gradients = std::move(g);
       return a.push(true);
     }},
    {"function_facts(function)",
     "Lines on its programs, on the calls that are not part of one, and on its gradient's programs.",
     [](Args& a) {
       const Fused& f = Userdata<Fused>::at(a, 1);
       a.push(f.function->fused()), a.push(f.function->separate());
       return 2 + a.push(f.gradients ? f.gradients->function->fused() : std::vector<std::string>());
     }},
    {"fuse_from(..)", "elements: sets the least that a call is fused from; the one before.",
     [](Args& a) { return a.push(min_fused_elements.exchange(a.integer(1))); }},
};

}  // namespace

void add_replay(lua_State* L) {
  add_internal(L, kReplay, Reach::tensors);
  add_internal(L, kFuse, Reach::tensors);
}

}  // namespace mt::lua
