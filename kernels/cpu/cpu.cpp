// cpu.cpp -- the CPU as a device: memory, and the choice of an instruction set at start
#ifndef __aarch64__
#include <cpuid.h>
#endif

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/verbs/elementwise.h"
#include "kernels/table.h"
#include "kernels/tree.h"

namespace mt {
namespace {

void* cpu_alloc(size_t bytes) { return std::aligned_alloc(64, (bytes + 63) / 64 * 64); }
void cpu_free(void* data, size_t) { std::free(data); }
void cpu_sync() {}

// ---- AVX-512 with some loops of AVX2: those that wider registers make more than 5 % slower ---------
// Rows of scripts/bench.lua on a Xeon with AVX-512 FP16: <op>/4 of logit and softplus (a short loop
// is only the remainder, which has no vectors of 4), <op>/1Ki or /1Mi of `Narrow`, max_rows,
// argmax_rows, cumsum, cumprod, cumprod_rows, matmul/10x2x100, 10x100x1 and 1x1024x1024. Exceptions
// are loops with Packs (vector remainders, other bits) and storage dtypes (they convert faster).

#if defined(MT_BUILT_AVX2) && defined(MT_BUILT_AVX512)
Verbs narrow, wide;

template <class All, class... Op> constexpr bool any_of(int op, op::List<Op...>) {
  return ((op == op::index_in<Op, All>) || ...);
}
using Narrow = op::List<op::Reciprocal, op::Hypot, op::Fmod, op::Maximum, op::Addcmul>;

template <class L> struct ByPacks;
template <class... Op> struct ByPacks<op::List<Op...>> {
  static constexpr bool of[] = {is_one_of<Op>(Packed{})...};
};

void mixed_map(const Map& m) {
  const bool few = m.ndim == 1 && m.size[0] < 16 && !ByPacks<op::Mapped>::of[m.op];
  const bool slow = m.part == 0 && !is_storage_only(m.dtype) && any_of<op::Mapped>(m.op, Narrow{});
  (few || slow ? narrow : wide).map(m);
}
void mixed_reduce(const Reduce& r) {
  const bool rows = r.reduced == 1 && r.reduced_stride[0] == 1 && r.kept > 0;
  const bool slow = any_of<op::Reductions>(r.op, op::List<op::Argmax, op::Argmin>{});
  (rows && slow ? narrow : wide).reduce(r);
}
void mixed_scan(const Scan& s) {
  const bool rows = s.lines.in_step == 1;
  const bool slow = any_of<op::Scans>(s.op, op::List<op::Cumsum, op::Cumprod>{});
  (rows && slow ? narrow : wide).scan(s);
}
bool mixed_matmul(const Matmul& m) {
  const bool few = m.m == 1 || m.n == 1 || m.k < 4;
  return (few && !m.pairs && m.dtype != Dtype::bf16 ? narrow : wide).matmul(m);
}
void fill_mixed(Verbs& verbs) {
  isa_avx2::fill_verbs(narrow);
  isa_avx512::fill_verbs(wide);
  isa_avx512::fill_verbs(verbs);
  verbs.map = mixed_map, verbs.reduce = mixed_reduce, verbs.scan = mixed_scan;
  verbs.matmul = mixed_matmul;
}
#elif defined(MT_BUILT_AVX512)
constexpr auto fill_mixed = isa_avx512::fill_verbs;
#endif

// ---- the choice at start -------------------------------------------------------------------------

struct Choice {
  const char* name;
  void (*fill)(Verbs&);   // null: not in this build
  bool runs, by_default;  // on this machine
  void (*run_tree)(const Tree&) = nullptr;
  void (*strip)(const SymmetricStrip<float>&) = nullptr;
  void (*wide_strip)(const SymmetricStrip<double>&) = nullptr;
  void (*triangle)(const TriangularSystem<float>&) = nullptr;
  void (*wide_triangle)(const TriangularSystem<double>&) = nullptr;
};

#ifdef MT_WITH_COMPILER
#define MT_TREE(isa) isa::run_tree
#else
#define MT_TREE(isa) nullptr
#endif
#define MT_FUNCTIONS(isa)                                                                          \
  MT_TREE(isa), isa::multiply_symmetric_strip, isa::multiply_symmetric_strip, isa::solve_triangle, \
      isa::solve_triangle

// The best choice is last. Not every build has all of them; the other names are rejected.
#ifdef __aarch64__
std::array<Choice, 1> all_choices() {
  return {{{"neon", isa_neon::fill_verbs, true, true, MT_FUNCTIONS(isa_neon)}}};
}
#else
// clang 14's __builtin_cpu_supports does not know f16c.
bool has_f16c() {
  unsigned a, b, c = 0, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

std::array<Choice, 3> all_choices() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512bw");
  // Processors with AVX-512 but without VBMI2 (Skylake-X, Cascade Lake) lower their clock for it.
  [[maybe_unused]] const bool fast512 = avx512 && __builtin_cpu_supports("avx512vbmi2");
  return {{
#ifdef MT_BUILT_BASE
      {"base", isa_base::fill_verbs, true, true, MT_FUNCTIONS(isa_base)},
#else
      {"base", nullptr, true, false},
#endif
#ifdef MT_BUILT_AVX2
      {"avx2", isa_avx2::fill_verbs, avx2, avx2, MT_FUNCTIONS(isa_avx2)},
#else
      {"avx2", nullptr, avx2, false},
#endif
#ifdef MT_BUILT_AVX512
      {"avx512", fill_mixed, avx512, fast512, MT_FUNCTIONS(isa_avx512)},
#else
      {"avx512", nullptr, avx512, false},
#endif
  }};
}
#endif

Choice choose() {
  const auto choices = all_choices();
  const char* const setting = std::getenv("MTORCH_ISA");
  Choice best = choices[0];
  bool known = !setting || !*setting;
  for (const Choice& c : choices) {
    if (c.by_default && c.fill) best = c;
    if (!setting || std::strcmp(setting, c.name) != 0) continue;
    if (c.runs && c.fill) return c;
    if (c.fill) continue;  // the machine does not support it
    known = true;
    std::fprintf(
        stderr,
        "mtorch: MTORCH_ISA=%s is not in this build, which is for the machine it was made on; build "
        "with -DMTORCH_ISAS=all\n",
        setting);
  }
  if (!known)
    std::fprintf(
        stderr, "mtorch: MTORCH_ISA=%s is ignored: this machine has no such instruction set (%s)\n",
        setting, kIsaNames);
  if (best.fill) return best;
  std::fputs(
      "mtorch: this processor cannot run this build, which is for the machine it was made on; "
      "build with -DMTORCH_ISAS=all\n",
      stderr);
  std::exit(1);
}

const Choice& choice() {
  static const Choice made = choose();
  return made;
}

Device make() {
  Device device{};
  device.abi = kDeviceAbi;
  device.name = "cpu";
  choice().fill(device.verbs);
  device.verbs.alloc = cpu_alloc, device.verbs.free = cpu_free, device.verbs.sync = cpu_sync;
  return device;
}

}  // namespace

const Device* the_cpu = nullptr;

const Device& start_cpu() {
  static const Device device = make();
  the_cpu = &device;
  return device;
}
const char* cpu_isa() { return choice().name; }
void run_tree_on_cpu(const Tree& t) { choice().run_tree(t); }
void multiply_symmetric_strip_on_cpu(const SymmetricStrip<float>& s) { choice().strip(s); }
void multiply_symmetric_strip_on_cpu(const SymmetricStrip<double>& s) { choice().wide_strip(s); }
void solve_triangle_on_cpu(const TriangularSystem<float>& s) { choice().triangle(s); }
void solve_triangle_on_cpu(const TriangularSystem<double>& s) { choice().wide_triangle(s); }

}  // namespace mt
