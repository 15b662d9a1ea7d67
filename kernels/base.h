// base.h -- what every kernel header stands on: dtypes, macros, the instruction set's namespace
#pragma once
#ifndef __CUDACC_RTC__
#include <cstddef>
#include <cstdint>
#endif

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define MT_HD __host__ __device__ __forceinline__
#else
#define MT_HD inline __attribute__((always_inline))
#endif

/// Code instantiated once per instruction set lives in `inline namespace MT_ISA`, so that the
/// linker never merges an AVX-512 copy of a function into the baseline. The build sets it;
/// everybody else gets `generic`.
#ifndef MT_ISA
#define MT_ISA generic
#endif

namespace mt {

/// Element types, in order of promotion within a kind. `none` means "no preference".
enum class Dtype : uint8_t { b8, u8, i32, i64, f32, f64, none };
constexpr int kDtypes = 6;

/// The largest number of dimensions a tensor can have.
constexpr int kMaxDims = 16;

template <Dtype D> struct CType;
template <> struct CType<Dtype::b8> { using type = bool; };
template <> struct CType<Dtype::u8> { using type = uint8_t; };
template <> struct CType<Dtype::i32> { using type = int32_t; };
template <> struct CType<Dtype::i64> { using type = int64_t; };
template <> struct CType<Dtype::f32> { using type = float; };
template <> struct CType<Dtype::f64> { using type = double; };
/// The C++ type of an element: `ctype<Dtype::f32>` is float.
template <Dtype D> using ctype = typename CType<D>::type;

/// Bytes per element.
MT_HD constexpr int64_t item_size(Dtype d) {
  return d == Dtype::f64 || d == Dtype::i64 ? 8 : d == Dtype::f32 || d == Dtype::i32 ? 4 : 1;
}
MT_HD constexpr bool is_float(Dtype d) { return d == Dtype::f32 || d == Dtype::f64; }

}  // namespace mt
