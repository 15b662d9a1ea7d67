// test_memory.cpp -- storage: what lives, what is reused, what is refused, and who keeps it alive
#include <thread>

#include "tests/unit/support.h"

namespace mt::test {
namespace {

int times_asked = 0;
bool ask() {
  ++times_asked;
  return false;
}

}  // namespace

#if !defined(__SANITIZE_ADDRESS__)  // with it nothing is kept
MT_TEST("what a batch frees is reused in the order of being freed", "[memory]") {
  const void *first = nullptr, *second = nullptr, *inside = nullptr, *third = nullptr,
             *fourth = nullptr;
  std::thread([&] {  // which has kept nothing yet
    Tensor a = empty({5000}, Dtype::f32), b = empty({5000}, Dtype::f32);
    first = a.data(), second = b.data();
    {
      const FreeBatch batch;
      a.reset(), b.reset();
      inside = empty({5000}, Dtype::f32).data();
    }
    a = empty({5000}, Dtype::f32), b = empty({5000}, Dtype::f32);
    third = a.data(), fourth = b.data();
  })
      .join();
  CHECK(inside != first);
  CHECK(third == first);
  CHECK(fourth == second);
}

MT_TEST("a program whose sizes change reuses the new ones", "[memory]") {
  int64_t freed = 0, taken = 0;
  std::thread([&] {
    {
      std::vector<Tensor> rows;
      for (int i = 0; i < 1000; ++i) rows.push_back(empty({16 << 10}, Dtype::f32));
    }
    Tensor wide = empty({64 << 10}, Dtype::f32);
    wide.reset();
    freed = memory_use().cached;
    wide = empty({64 << 10}, Dtype::f32);
    taken = memory_use().cached;
  }).join();
  CHECK(freed - taken >= 256 << 10);
}

MT_TEST("a large block replaces blocks of sizes that are no longer requested", "[memory]") {
  int64_t before = 0, after = 0;
  std::thread([&] {
    std::vector<Tensor> blocks;
    for (int i = 0; i < 3; ++i) blocks.push_back(empty({40 << 20}, Dtype::u8));
    blocks.clear();
    const MemoryUse use = memory_use();
    before = use.cached;
    // Nothing fits below the peak any more: what does is always kept.
    const Tensor to_the_peak = empty({use.peak - use.host + (64 << 20)}, Dtype::u8);
    empty({16 << 20}, Dtype::u8).reset();
    after = memory_use().cached;
  }).join();
  CHECK(before >= 120 << 20);
  CHECK(after >= 16 << 20);
  CHECK(after < 64 << 20);
}
#endif

MT_TEST("live bytes follow the tensors", "[memory]") {
  const int64_t before = memory_use().live;
  {
    const Tensor x = empty({1000}, Dtype::f32);
    CHECK(memory_use().live == before + 4000);
    const Tensor view_of_x = view(x, {10, 100}), copy = x;
    CHECK(memory_use().live == before + 4000);
    const Tensor y = clone(x);
    CHECK(memory_use().live == before + 8000);
    CHECK(memory_use().peak >= before + 8000);
  }
  CHECK(memory_use().live == before);
  CHECK(memory_use().peak >= before + 8000);
}

MT_TEST("a view keeps the storage alive", "[memory]") {
  Tensor x = tensor({4}, {1, 2, 3, 4});
  const Tensor tail = slice(x, 0, 2, 2);
  x.reset();
  Tensor noise = full({4}, 9, Dtype::f64);  // would take the place
  CHECK(values(tail) == std::vector<double>{3, 4});
}

MT_TEST("storage is aligned to 64 bytes at every size", "[memory]") {
  std::vector<Tensor> all;
  for (int64_t n : {0, 1, 3, 15, 16, 17, 63, 64, 65, 255, 1000, 4097, 70001}) {
    all.push_back(empty({n}, Dtype::u8));
    CHECK(reinterpret_cast<uintptr_t>(all.back().data()) % 64 == 0);
    all.push_back(empty({n}, Dtype::f64));
    CHECK(reinterpret_cast<uintptr_t>(all.back().data()) % 64 == 0);
  }
}

MT_TEST("blocks of all sizes hold what was asked for", "[memory]") {
  std::vector<Tensor> all;
  for (int64_t n = 1; n < 3000; n += 1 + n / 7)
    for (int copies = 0; copies < 3; ++copies)
      all.push_back(full({n}, double(all.size() % 251), Dtype::u8));
  for (size_t i = 0; i < all.size(); i += 2) all[i].reset();
  std::vector<Tensor> more;
  for (int64_t n = 1; n < 3000; n += 1 + n / 5) more.push_back(full({n}, 252, Dtype::u8));
  bool intact = true;
  for (size_t i = 1; i < all.size(); i += 2)
    intact &= amin(all[i]).item() == double(i % 251) && amax(all[i]).item() == double(i % 251);
  CHECK(intact);
}

#if !defined(__SANITIZE_ADDRESS__)
MT_TEST("freed storage is used again", "[memory]") {
  void *first = nullptr, *second = nullptr;
  int64_t cached[3] = {};
  std::thread([&] {  // whose list is empty
    Tensor x = empty({5000}, Dtype::f64);
    first = x.data();
    cached[0] = memory_use().cached;
    x.reset();
    cached[1] = memory_use().cached;
    const Tensor y = empty({5001}, Dtype::f64);  // of the same size class
    second = y.data();
    cached[2] = memory_use().cached;
  })
      .join();
  CHECK(first == second);
  CHECK(cached[1] >= cached[0] + 40000);
  CHECK(cached[2] <= cached[1] - 40000);
}

MT_TEST("large storage is kept up to what lived at once, and used again", "[memory]") {
  constexpr int64_t kMiB = 1 << 20;
  const int64_t before = memory_use().cached;
  Tensor x = empty({150 * kMiB}, Dtype::u8);
  const void* const first = x.data();
  x.reset();
  CHECK(memory_use().cached >= before + 150 * kMiB);
  x = empty({149 * kMiB}, Dtype::u8);  // of the same size class
  CHECK(x.data() == first);
  *x.data_as<char>() = 1;
  x.reset();
  for (int64_t n = 60; n < 1000; n += n / 2) empty({n * kMiB}, Dtype::u8);
  const MemoryUse now = memory_use();
  CHECK(now.cached <= 2 * 48 * kMiB + (now.peak - now.host) / 4 * 5);
}

MT_TEST("small storage is kept whatever larger storage was kept before", "[memory]") {
  constexpr int64_t kMiB = 1 << 20;
  const auto kept = [](int64_t bytes, int64_t n) {  // of n tensors
    std::vector<Tensor> all;
    for (int64_t i = 0; i < n; ++i) all.push_back(empty({bytes}, Dtype::u8));
    const int64_t before = memory_use().cached;
    all.clear();
    return memory_use().cached - before;
  };
  std::thread([&] {  // whose list is empty
    kept(150 * kMiB, 1);
    CHECK(kept(kMiB, 80) <= 48 * kMiB);
    kept(200000, 100);  // while others make way
    const int64_t before = memory_use().cached;
    std::vector<Tensor> again;
    for (int i = 0; i < 100; ++i) again.push_back(empty({200000}, Dtype::u8));
    CHECK(memory_use().cached <= before - 100 * 200000);
    again.clear();
    CHECK(kept(1000, 100) >= 100 * 1000);
  })
      .join();
}
#endif

MT_TEST("the free list is bounded and each thread has its own", "[memory]") {
  std::thread([] {
    std::vector<Tensor> many;
    for (int i = 0; i < 80; ++i) many.push_back(empty({1 << 20}, Dtype::u8));
    many.clear();
    CHECK(memory_use().cached <= int64_t(48) << 20);
  }).join();
  Tensor moved;
  int64_t inside = -1;
  std::thread([&] {
    moved = full({1000}, 7, Dtype::f64);
    inside = memory_use().cached;
  }).join();
  CHECK(inside >= 0);
  CHECK(moved.at(999) == 7);  // outlives its thread
}

MT_TEST("bytes_allocated only grows", "[memory]") {
  const int64_t before = bytes_allocated();
  for (int i = 0; i < 10; ++i) empty({1000}, Dtype::u8);
  const int64_t after = bytes_allocated();
  CHECK(after >= before + 10000);
  CHECK(after < before + 20000);
}

MT_TEST("what cannot be allocated is refused with its sizes", "[memory]") {
  const int64_t before = memory_use().live;
  std::string text = error_of([] { empty({int64_t(1) << 62}, Dtype::f64); });
  CHECK(contains(text, "4611686018427387904"));
  text = error_of([] { zeros({int64_t(1) << 31, int64_t(1) << 31, 4}); });
  CHECK(contains(text, "(2147483648 x 2147483648 x 4)"));
  CHECK(contains(error_of([] {
                   empty({int64_t(1) << 40, int64_t(1) << 40, 0, -1}, Dtype::f64);
                 }),
                 "-1"));
  CHECK(empty({int64_t(1) << 20, int64_t(1) << 20, 0}, Dtype::f64).numel() == 0);
  CHECK(contains(error_of([] {
                   expand(ones({1, 1}), {int64_t(1) << 40, int64_t(1) << 40});
                 }),
                 "1099511627776"));
  CHECK(memory_use().live == before);
}

MT_TEST("out of memory asks once for a collection, then says how much", "[memory]") {
  const auto previous = std::exchange(host.collect_garbage, ask);
  times_asked = 0;
  const std::string text = error_of([] { empty({int64_t(1) << 45}, Dtype::u8); });
  host.collect_garbage = previous;
  CHECK(times_asked == 1);
  CHECK(contains(text, "out of memory: 32768.00 GiB requested on cpu"));
  CHECK(contains(text, "live in tensors"));
}

MT_TEST("a version counts the changes of a storage, through every view", "[memory]") {
  const Tensor x = zeros({4}), part = slice(x, 0, 1, 2);
  const auto version = [&] { return x.impl()->storage->version; };
  uint32_t last = version();
  const auto grew = [&] {
    const bool more = version() > last;
    last = version();
    return more;
  };
  fill_(part, 1);
  CHECK(grew());
  x += 1.0;
  CHECK(grew());
  copy_(part, ones({2}));
  CHECK(grew());
  assign(x, pick(x, 0, 0), Tensor(2.0));
  CHECK(grew());
  clone(x), sum(x), x * 2.0, contiguous(x), x.detach();
  CHECK(!grew());
}

MT_TEST("counted pointers share, move and give up their target", "[memory]") {
  Tensor a = zeros({3});
  CHECK(a.unique());
  Tensor b = a;
  CHECK(!a.unique());
  Tensor c = std::move(b);
  CHECK(!b.defined());  // NOLINT: what is left after a move is what is tested
  CHECK(c.impl() == a.impl());
  Tensor& same = c;
  c = same;
  CHECK(c.defined());
  a.reset();
  CHECK(c.unique());
  c = Tensor();
  CHECK(!c.defined());
}

}  // namespace mt::test
