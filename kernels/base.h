// base.h -- what every kernel header stands on: dtypes, macros, the instruction set's namespace
#pragma once
#ifndef __CUDACC_RTC__
#include <cstddef>
#include <cstdint>
#endif

#include "kernels/math/half.h"

/// Code instantiated once per instruction set lives in `inline namespace MT_ISA`, so that the
/// linker never merges an AVX-512 copy of a function into the baseline. The build sets it;
/// everybody else gets `generic`.
#ifndef MT_ISA
#define MT_ISA generic
#endif

namespace mt {

/// Element types: first those that kernels calculate in, in order of promotion; then the 16-bit
/// floats, which are converted where they are read and written. `none` means "no preference".
enum class Dtype : uint8_t { b8, u8, i32, i64, f32, f64, f16, bf16, none };
constexpr int kDtypes = 8;
/// How many of them loops are compiled for.
constexpr int kLoopDtypes = 6;

/// The largest number of dimensions a tensor can have.
constexpr int kMaxDims = 16;

template <Dtype D> struct CType;
template <> struct CType<Dtype::b8> { using type = bool; };
template <> struct CType<Dtype::u8> { using type = uint8_t; };
template <> struct CType<Dtype::i32> { using type = int32_t; };
template <> struct CType<Dtype::i64> { using type = int64_t; };
template <> struct CType<Dtype::f32> { using type = float; };
template <> struct CType<Dtype::f64> { using type = double; };
template <> struct CType<Dtype::f16> { using type = Float16; };
template <> struct CType<Dtype::bf16> { using type = Bfloat16; };
/// The C++ type of an element: `ctype<Dtype::f32>` is float.
template <Dtype D> using ctype = typename CType<D>::type;

MT_HD constexpr bool is_float(Dtype d) { return d >= Dtype::f32 && d <= Dtype::bf16; }
/// Whether it is one of the 16-bit floats.
MT_HD constexpr bool is_half(Dtype d) { return d == Dtype::f16 || d == Dtype::bf16; }
/// What elements of a dtype are calculated in.
MT_HD constexpr Dtype wide(Dtype d) { return is_half(d) ? Dtype::f32 : d; }
/// Bytes per element.
MT_HD constexpr int64_t item_size(Dtype d) {
  return is_half(d)                           ? 2
         : d == Dtype::f64 || d == Dtype::i64 ? 8
         : d == Dtype::f32 || d == Dtype::i32 ? 4
                                              : 1;
}

}  // namespace mt
