// test_step_plan.cpp -- memory of recorded steps: buffers that are needed at once do not overlap
#include "engine/compiler/record/step_calls.h"
#include "engine/core/device.h"
#include "tests/unit/support.h"

namespace mt::test {

TEST_CASE("buffers that live at once have places of their own", "[memory]") {
  uint32_t state = 1;
  const auto pick = [&](int n) { return int((state = state * 1664525 + 1013904223) >> 8) % n; };
  for (int round = 0; round < 200; ++round) {
    const int calls = 1 + pick(40);
    std::vector<StepBuffer> all(size_t(1 + pick(60)));
    for (StepBuffer& b : all) {
      b.device = &cpu_device();
      b.bytes = size_t(pick(3) == 0 ? pick(100000) : pick(300));
      b.first = pick(calls), b.last = b.first + pick(calls - b.first);
      if (pick(8) == 0) b.kind = StepBuffer::Kind::outside;
      if (pick(9) == 0) b.first = INT_MAX, b.last = -1;  // never used
    }
    const size_t size = plan_memory(all, size_t(calls), cpu_device());
    size_t most = 0;
    for (int i = 0; i < calls; ++i) {
      size_t live = 0;
      for (const StepBuffer& a : all) {
        if (a.kind != StepBuffer::Kind::inner || a.first > i || a.last < i) continue;
        live += a.bytes;
        CHECK(a.offset % 64 == 0);
        CHECK(a.offset + a.bytes <= size);
        for (const StepBuffer& b : all)
          if (&a < &b && b.kind == StepBuffer::Kind::inner && b.first <= i && b.last >= i)
            CHECK((a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset));
      }
      most = std::max(most, live);
    }
    CHECK(size >= most);
    CHECK(size <= inner_bytes(all) + 320 * all.size());
  }
}

}  // namespace mt::test
