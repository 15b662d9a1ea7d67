// base.h -- what all kernel headers include: dtypes, macros, the namespace of the instruction set
#pragma once
#ifndef __CUDACC_RTC__
#include <cstddef>
#include <cstdint>
#endif

#include "kernels/math/reduced_floats.h"

/// Code that is compiled once per instruction set is in `inline namespace MT_ISA`, so that the
/// linker never merges the AVX-512 copy of a function with the baseline copy. The build defines the
/// macro for those files; all other files use `generic`.
#ifndef MT_ISA
#define MT_ISA generic
#endif

/// Defined if the instruction set rounds a * b + c once.
#if defined(__FMA__) || defined(__AVX512F__) || defined(__ARM_FEATURE_FMA)
#define MT_HAS_FMA
#endif

namespace mt {

/// Every element type: its enumerator, its C++ type, its name for users, and the dtype it is
/// computed in. The dtypes that kernels compute in are first, in the order of type promotion; the
/// others are for storage only, and are converted when they are read and written.
// clang-format off
#define MT_DTYPES(V)                                \
  V(b8, bool, "bool", b8)                           \
  V(u8, uint8_t, "uint8", u8)                       \
  V(i32, int32_t, "int32", i32)                     \
  V(i64, int64_t, "int64", i64)                     \
  V(f32, float, "float32", f32)                     \
  V(f64, double, "float64", f64)                    \
  V(f16, Float16, "float16", f32)                   \
  V(bf16, Bfloat16, "bfloat16", f32)                \
  V(i8, int8_t, "int8", i32)                        \
  V(i16, int16_t, "int16", i32)                     \
  V(f8_e4m3fn, Float8E4M3fn, "float8_e4m3fn", f32)  \
  V(f8_e5m2, Float8E5M2, "float8_e5m2", f32)
// clang-format on

#define MT_NAME(name, ...) name,
/// `none` means "no preference".
enum class Dtype : uint8_t { MT_DTYPES(MT_NAME) none };
#undef MT_NAME
constexpr int kDtypes = static_cast<int>(Dtype::none);
/// The number of dtypes that loops are compiled for: the first ones of the list.
constexpr int kLoopDtypes = 6;

/// The largest number of dimensions a tensor can have.
constexpr int kMaxDims = 16;

template <Dtype D> struct CType;
#define MT_CTYPE(name, T, ...) \
  template <> struct CType<Dtype::name> { using type = T; };
MT_DTYPES(MT_CTYPE)
#undef MT_CTYPE
/// The C++ type of an element: `ctype<Dtype::f32>` is float.
template <Dtype D> using ctype = typename CType<D>::type;

/// The dtype that elements of a dtype are computed in.
MT_HD constexpr Dtype compute_dtype(Dtype d) {
#define MT_COMPUTED(name, T, text, computed) \
  case Dtype::name: return Dtype::computed;
  switch (d) {
    MT_DTYPES(MT_COMPUTED)
    default: return d;
  }
#undef MT_COMPUTED
}
/// Bytes per element.
MT_HD constexpr int64_t item_size(Dtype d) {
#define MT_SIZE(name, T, ...) \
  case Dtype::name: return sizeof(T);
  switch (d) {
    MT_DTYPES(MT_SIZE)
    default: return 1;
  }
#undef MT_SIZE
}
/// Whether the dtype is for storage only.
MT_HD constexpr bool is_storage_only(Dtype d) { return d >= Dtype(kLoopDtypes); }
MT_HD constexpr bool is_float(Dtype d) { return compute_dtype(d) == Dtype::f32 || d == Dtype::f64; }
/// Whether it is a storage-only float.
MT_HD constexpr bool is_reduced_float(Dtype d) { return is_storage_only(d) && is_float(d); }
/// Whether it is a 16-bit float, for which some libraries and GPUs have instructions.
MT_HD constexpr bool is_half(Dtype d) { return d == Dtype::f16 || d == Dtype::bf16; }

}  // namespace mt
