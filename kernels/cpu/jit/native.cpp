// native.cpp -- the machine code of expression programs, compiled at first use and cached
#include "kernels/cpu/jit/native.h"

#include <memory>
#include <mutex>
#include <unordered_map>

#include "kernels/cpu/jit/jit_x64.h"
#include "kernels/cpu/jit/lower.h"
#include "kernels/cpu/pool/counters.h"

namespace mt {
namespace {

struct Key {
  const Program* program;
  uint64_t repeated;
  Dtype dtype;
  bool operator==(const Key& k) const {
    return program == k.program && repeated == k.repeated && dtype == k.dtype;
  }
};
struct Hash {
  size_t operator()(const Key& k) const {
    return (k.program->hash ^ k.repeated * 0x9e3779b97f4a7c15 ^ uint64_t(k.dtype)) *
               0xbf58476d1ce4e5b9 >>
           16;
  }
};
struct CodeCache {
  std::mutex lock;
  std::unordered_map<Key, std::unique_ptr<Code>, Hash> all;
};
CodeCache& code_cache() {
  static auto* const kept = new CodeCache;  // programs are never freed, and neither is their code
  return *kept;
}

std::unique_ptr<Code> make(const Key& k) {
  Isa isa;
  ir::LaneProgram lanes;
  if (k.dtype != Dtype::f32 && k.dtype != Dtype::f64) return nullptr;
  if (!jit_isa(isa) || !lower(*k.program, k.dtype, lanes)) return nullptr;
  return compile(lanes, isa, k.repeated);
}

/// The code last used by this thread, indexed by the low bits of the hash; on the heap: a library
/// loaded late (mtorch.so) gets little thread-local storage.
struct RecentCode {
  Key key{};
  const Code* code = nullptr;
};
thread_local std::unique_ptr<RecentCode[]> recent;

}  // namespace

const Code* native_code(const Program& p, Dtype dtype, uint64_t repeated) {
  const Key key{&p, repeated, dtype};
  if (!recent) recent = std::make_unique<RecentCode[]>(64);
  RecentCode& r = recent[Hash{}(key) % 64];
  if (r.key == key) return r.code;
  CodeCache& m = code_cache();
  const std::lock_guard guard(m.lock);
  const auto [at, is_new] = m.all.try_emplace(key);
  if (is_new) at->second = make(key);
  r = {key, at->second.get()};
  return r.code;
}

size_t native_bytes(const Program& p, Dtype dtype, uint64_t repeated) {
  const Code* const code = native_code(p, dtype, repeated);
  return code ? code->bytes() : 0;
}

int64_t run_native(const Code& code, void* const* data, const double* numbers, int64_t from,
                   int64_t to) {
  const int64_t done = code.run(data, numbers, from, to);
  count_elements(done - from);
  return done;
}

}  // namespace mt
