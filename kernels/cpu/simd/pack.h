// pack.h -- a register of floats as a symbolic number for the formulas in kernels/math/ and ops.h
//
// A formula called with Packs computes all elements of a register at once, with the instructions
// that are named here: g++ would choose different and more instructions for a loop of floats. The
// bits equal those of the formula called with a float. Needs FMA and AVX2 (MT_HAS_PACKS).
#pragma once
#include "kernels/cpu/simd/exp_underflow.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/math/math.h"
#include "kernels/math/number.h"

namespace mt {
inline namespace MT_ISA {

#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__))
#define MT_HAS_PACKS 1
namespace simd {

#ifdef __AVX512F__
using I32s = __m512i;
using M32s = __mmask16;
#define MT_BITS(op) _mm512_##op##_si512
#else
using I32s = __m256i;
using M32s = __m256;
#define MT_BITS(op) _mm256_##op##_si256
#endif
MT_SIMD F32s as_floats(I32s v) { return F32s(v); }
MT_SIMD I32s as_words(F32s v) { return I32s(v); }

/// A bool for each element.
struct PackMask {
  M32s m;
#ifdef __AVX512F__
  friend MT_SIMD PackMask operator&(PackMask a, PackMask b) { return {M32s(a.m & b.m)}; }
  friend MT_SIMD PackMask operator|(PackMask a, PackMask b) { return {M32s(a.m | b.m)}; }
  friend MT_SIMD PackMask operator^(PackMask a, PackMask b) { return {M32s(a.m ^ b.m)}; }
  friend MT_SIMD PackMask operator!(PackMask a) { return {M32s(~a.m)}; }
#else
  friend MT_SIMD PackMask operator&(PackMask a, PackMask b) { return {_mm256_and_ps(a.m, b.m)}; }
  friend MT_SIMD PackMask operator|(PackMask a, PackMask b) { return {_mm256_or_ps(a.m, b.m)}; }
  friend MT_SIMD PackMask operator^(PackMask a, PackMask b) { return {_mm256_xor_ps(a.m, b.m)}; }
  friend MT_SIMD PackMask operator!(PackMask a) {
    return {_mm256_xor_ps(a.m, as_floats(_mm256_set1_epi32(-1)))};
  }
#endif
};

/// The bits of a Pack as unsigned integers.
struct PackBits {
  I32s v;
  PackBits() = default;
  MT_SIMD PackBits(I32s x) : v(x) {}
  MT_SIMD explicit PackBits(uint32_t x) : v(MT_MM(set1_epi32)(int(x))) {}
  MT_SIMD explicit PackBits(int x) : v(MT_MM(set1_epi32)(x)) {}
  friend MT_SIMD PackBits operator+(PackBits a, PackBits b) { return MT_MM(add_epi32)(a.v, b.v); }
  friend MT_SIMD PackBits operator-(PackBits a, PackBits b) { return MT_MM(sub_epi32)(a.v, b.v); }
  friend MT_SIMD PackBits operator&(PackBits a, PackBits b) { return MT_BITS(and)(a.v, b.v); }
  friend MT_SIMD PackBits operator|(PackBits a, PackBits b) { return MT_BITS(or)(a.v, b.v); }
  friend MT_SIMD PackBits operator^(PackBits a, PackBits b) { return MT_BITS(xor)(a.v, b.v); }
  friend MT_SIMD PackBits operator<<(PackBits a, int n) {
    return MT_MM(slli_epi32)(a.v, unsigned(n));
  }
  friend MT_SIMD PackBits operator>>(PackBits a, int n) {
    return MT_MM(srli_epi32)(a.v, unsigned(n));
  }
#ifdef __AVX512F__
  friend MT_SIMD PackMask operator==(PackBits a, PackBits b) {
    return {_mm512_cmpeq_epi32_mask(a.v, b.v)};
  }
  friend MT_SIMD PackMask operator!=(PackBits a, PackBits b) {
    return {_mm512_cmpneq_epi32_mask(a.v, b.v)};
  }
#else
  friend MT_SIMD PackMask operator==(PackBits a, PackBits b) {
    return {as_floats(_mm256_cmpeq_epi32(a.v, b.v))};
  }
  friend MT_SIMD PackMask operator!=(PackBits a, PackBits b) { return !(a == b); }
#endif
};

/// A float in each element of a register.
struct Pack {
  F32s v;
  Pack() = default;
  MT_SIMD Pack(F32s x) : v(x) {}
  MT_SIMD explicit Pack(float x) : v(broadcast(x)) {}
  MT_SIMD explicit Pack(double x) : v(broadcast(static_cast<float>(x))) {}
  MT_SIMD explicit Pack(int x) : v(broadcast(static_cast<float>(x))) {}
  static MT_SIMD Pack load(const float* p) { return simd::load(p); }
  MT_SIMD void store(float* p) const { simd::store(p, v); }
  friend MT_SIMD Pack operator+(Pack a, Pack b) { return MT_MM(add_ps)(a.v, b.v); }
  friend MT_SIMD Pack operator-(Pack a, Pack b) { return MT_MM(sub_ps)(a.v, b.v); }
  friend MT_SIMD Pack operator*(Pack a, Pack b) { return MT_MM(mul_ps)(a.v, b.v); }
  friend MT_SIMD Pack operator/(Pack a, Pack b) { return MT_MM(div_ps)(a.v, b.v); }
  friend MT_SIMD Pack operator-(Pack a) { return F32s(-a.v); }
#ifdef __AVX512F__
  template <int Order> static MT_SIMD PackMask compare(Pack a, Pack b) {
    return {_mm512_cmp_ps_mask(a.v, b.v, Order)};
  }
#else
  template <int Order> static MT_SIMD PackMask compare(Pack a, Pack b) {
    return {_mm256_cmp_ps(a.v, b.v, Order)};
  }
#endif
  friend MT_SIMD PackMask operator<(Pack a, Pack b) { return compare<_CMP_LT_OQ>(a, b); }
  friend MT_SIMD PackMask operator<=(Pack a, Pack b) { return compare<_CMP_LE_OQ>(a, b); }
  friend MT_SIMD PackMask operator>(Pack a, Pack b) { return compare<_CMP_LT_OQ>(b, a); }
  friend MT_SIMD PackMask operator>=(Pack a, Pack b) { return compare<_CMP_LE_OQ>(b, a); }
  friend MT_SIMD PackMask operator==(Pack a, Pack b) { return compare<_CMP_EQ_OQ>(a, b); }
  friend MT_SIMD PackMask operator!=(Pack a, Pack b) { return compare<_CMP_NEQ_UQ>(a, b); }

  friend MT_SIMD PackBits to_bits(Pack a) { return as_words(a.v); }
  static MT_SIMD PackBits sign() { return PackBits(0x80000000u); }
};
template <class P> MT_SIMD P from_bits(PackBits b) { return P(as_floats(b.v)); }

MT_SIMD Pack fma(Pack a, Pack b, Pack c) { return fma(a.v, b.v, c.v); }
MT_SIMD Pack sqrt(Pack a) { return MT_MM(sqrt_ps)(a.v); }
MT_SIMD Pack fabs(Pack a) { return as_floats(MT_BITS(andnot)(Pack::sign().v, as_words(a.v))); }
#ifdef __AVX512F__
MT_SIMD Pack select(PackMask m, Pack a, Pack b) { return _mm512_mask_blend_ps(m.m, b.v, a.v); }
/// a with the sign of b.
MT_SIMD Pack copysign(Pack a, Pack b) {
  return as_floats(_mm512_ternarylogic_epi32(as_words(a.v), as_words(b.v), Pack::sign().v, 0xd8));
}
MT_SIMD Pack rint(Pack a) { return _mm512_roundscale_ps(a.v, 8); }
#else
MT_SIMD Pack select(PackMask m, Pack a, Pack b) { return _mm256_blendv_ps(b.v, a.v, m.m); }
MT_SIMD Pack copysign(Pack a, Pack b) {
  const F32s minus = as_floats(Pack::sign().v);
  return _mm256_or_ps(_mm256_andnot_ps(minus, a.v), _mm256_and_ps(minus, b.v));
}
MT_SIMD Pack rint(Pack a) { return _mm256_round_ps(a.v, 8); }
#endif

// The compound functions of math.h; these instructions return b if an operand is NaN.
MT_SIMD Pack at_most(Pack x, Pack most) { return MT_MM(min_ps)(most.v, x.v); }
MT_SIMD Pack at_least(Pack x, Pack least) { return MT_MM(max_ps)(least.v, x.v); }
MT_SIMD Pack lesser(Pack n, Pack most) { return MT_MM(min_ps)(n.v, most.v); }
#ifdef __AVX512F__
MT_SIMD Pack if_minus(Pack x, Pack yes, Pack no) {
  return select(PackMask{_mm512_movepi32_mask(as_words(x.v))}, yes, no);
}
MT_SIMD Pack about_inverse(Pack d) { return _mm512_rcp14_ps(d.v); }
MT_SIMD Pack about_rsqrt(Pack x) { return _mm512_rsqrt14_ps(x.v); }
#else
MT_SIMD Pack if_minus(Pack x, Pack yes, Pack no) { return _mm256_blendv_ps(no.v, yes.v, x.v); }
#endif

MT_SIMD Pack zeros_like(Pack) { return Pack(0); }
/// Formulas call other operations through this function.
template <class Op, class... U> MT_SIMD auto apply(Op, const Pack& x, const U&... more) {
  return Op::f(x, Pack(more)...);
}

}  // namespace simd

namespace math {
template <> inline constexpr bool is_symbolic<simd::Pack> = true;
template <> struct core::Real<simd::Pack> : core::ExpLimits<float> { using Bits = simd::PackBits; };
}  // namespace math

namespace simd {
using math::core::Real;

#ifdef __AVX512F__
// These give the same bits with fewer instructions.
MT_SIMD Pack scaled_by(Pack y, Pack n, Pack) {
  const PackMask some = !(n < Pack(Real<Pack>::underflow));
  return _mm512_maskz_scalef_ps(some.m, y.v, (n - Pack(Real<float>::round + 254)).v);
}
MT_SIMD Pack scaled(math::core::Exp<Pack> e, Pack x) { return scaled_by(Pack(1) + e.q, e.n, x); }
MT_SIMD math::core::Split<Pack> split_any(Pack x) {
  const Pack m = _mm512_getmant_ps(x.v, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
  return {Pack(_mm512_getexp_ps(x.v)) - Pack(_mm512_getexp_ps(m.v)), m, Pack(0)};
}
/// |x|, or 14.5 where x is NaN or |x| is greater.
MT_SIMD Pack normal_size(Pack x) { return _mm512_range_ps(x.v, Pack(14.5f).v, 0xa); }
/// split_any has already handled the logarithms of 0, infinity, NaN and negative numbers.
MT_SIMD Pack split_special(Pack, Pack y) { return y; }
#else
MT_SIMD Pack scaled(math::core::Exp<Pack> e, Pack x) {  // q = -1 makes it 0 before the scaling
  return math::core::scaled<Pack>({e.n, select(e.n < Pack(Real<Pack>::underflow), Pack(-1), e.q)},
                                  x);
}
MT_SIMD Pack scaled_by(Pack y, Pack n, Pack x) {
  return math::core::scaled_by<Pack>(math::core::flush_underflow(n, y), n, x);
}
#endif

/// Require |x| <= Real<float>::near, which the loop tests (kernels/cpu/simd/fast_path.h).
MT_SIMD Pack sin(Pack x) { return math::core::near_sin(x); }
MT_SIMD Pack cos(Pack x) { return math::core::near_cos(x); }
MT_SIMD Pack tan(Pack x) { return math::core::near_tan(x); }

#undef MT_BITS
}  // namespace simd
#endif

}  // namespace MT_ISA
}  // namespace mt
