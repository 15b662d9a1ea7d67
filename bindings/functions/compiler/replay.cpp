// replay.cpp -- mt.compile's recorder and replays, for bindings/lua/compile/step.lua
#include "engine/compiler/record/replay.h"

#include "bindings/functions/functions.h"

namespace mt::lua {

namespace {

struct LuaStepRecorder final : StepRecorder {
  static constexpr char kShown[] = "a recording of a step";
  using StepRecorder::StepRecorder;
};
}  // namespace
StepRecorder& recorder_at(const Args& a, int i) { return Userdata<LuaStepRecorder>::at(a, i); }
namespace {

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
       LuaStepRecorder& r = Userdata<LuaStepRecorder>::at(a, 1);
       std::unique_ptr<StepReplay> made = r.finish(a.tensors(2), a.tensors(3));
       if (!made) return lua_pushnil(a.L), 1 + a.push(r.why());
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
       const StepRecorder& r = recorder_at(a, 1);
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
     bind<[](ReplayHandle& s) { return s.replay->facts(); }>},
};

}  // namespace

void add_replay(lua_State* L) { add_internal(L, kReplay, Reach::tensors); }

}  // namespace mt::lua
