// native.cpp -- the machine code of expression programs, compiled at first use and cached
#include "kernels/cpu/jit/native.h"

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "kernels/cpu/jit/jit_x64.h"
#include "kernels/cpu/jit/lower.h"
#include "kernels/cpu/pool/counters.h"

namespace mt {
namespace {

std::unique_ptr<Code> make(const Program& p, Dtype dtype, uint64_t repeated) {
  Isa isa;
  ir::LaneProgram lanes;
  if (dtype != Dtype::f32 && dtype != Dtype::f64) return nullptr;
  if (!jit_isa(isa) || !lower(p, dtype, lanes)) return nullptr;
  return compile(lanes, isa, repeated);
}

}  // namespace

const Code* native_code(const Program& p, Dtype dtype, uint64_t repeated) {
  static std::mutex lock;  // programs are never freed, and neither is their code
  static auto* const all =
      new std::map<std::tuple<const Program*, uint64_t, Dtype>, std::unique_ptr<Code>>;
  const std::lock_guard guard(lock);
  const auto [at, is_new] = all->try_emplace({&p, repeated, dtype});
  if (is_new) at->second = make(p, dtype, repeated);
  return at->second.get();
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
