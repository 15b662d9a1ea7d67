// step_verbs.cpp -- the recorder of steps as an interceptor: it keeps each call of a verb with its argument
#include <algorithm>

#include "engine/compiler/record/replay.h"
#include "engine/compiler/record/verb_fields.h"
#include "engine/core/device.h"
#include "engine/ops/generator.h"

namespace mt {

template <class A> void StepRecorder::add(const InterceptedCall& seen, const A& given) {
  if (!why_.empty() && kind_ == Kind::step) return;
  const char* const name = host.function();
  const std::string by = name ? name : "an operation";
  if constexpr (!kRecords<A>) {
    return refuse(by + " cannot be recorded");
  } else {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&given);
    std::byte* const kept = replay_->arguments_.emplace_back(bytes, bytes + sizeof given).data();
    // A replay may change the source of its upload right after the call.
    const Verb verb = seen.verb == Verb::upload_later ? Verb::upload : seen.verb;
    StepCall call{verb, &seen.device, kept, nullptr, 0, {}};
    A& a = *reinterpret_cast<A*>(kept);
    bool known = true;
    const auto look = [&](auto*& p, bool out) {
      known &= !p || check(reinterpret_cast<std::byte*>(&p), out, call);
    };
    fields(a, look);
    if (!known)
      return refuse(by + " reads numbers that no verb of the device has written in the step");
    if constexpr (requires { a.program->numbers; }) {
      if (a.numbers) {
        const auto* const from = reinterpret_cast<const std::byte*>(a.numbers);
        const size_t size = sizeof(double) * a.program->numbers;
        a.numbers =
            reinterpret_cast<const double*>(numbers_.emplace_back(from, from + size).data());
      }
    } else if constexpr (std::is_same_v<A, Random>) {
      if (a.seed != default_generator().initial_seed())
        return refuse(by + " draws from a generator of its own");
      check_generator(a.offset);
      drawn_ = std::max(drawn_, default_generator().counter());
      call.random = &a, call.place = a.offset - begun_;
    }
    if constexpr (std::is_base_of_v<Map, A> || std::is_same_v<A, Reduce>)
      if (host.where && !gradient_) call.where = host.where();
    call.gradient = gradient_;
    calls_.push_back(std::move(call));
  }
}

bool StepRecorder::around(InterceptedCall& call) {
  const auto record = [&] {
    with_argument(call.verb, call.argument, [&](const auto& a) { add(call, a); });
  };
  if (step_recorder != this || call.verb == Verb::alloc || call.verb == Verb::free ||
      call.verb == Verb::sync)
    return call.next();
  if (call.verb == Verb::run && !is_cpu(call.device)) {  // one call, however the device runs it
    const auto run = [&] {
      const SaveAndRestore<StepListener*> pause(step_recorder, nullptr);
      return call.next();
    };
    if (!run()) return false;
    record();
    return true;
  }
  record();
  if (call.verb == Verb::matmul || call.verb == Verb::conv) return call.next();
  if (!call.next())
    fail("an index is out of range; run the step without mt.compile to see which one");
  return true;
}

}  // namespace mt
