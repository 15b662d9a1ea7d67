// fft.cpp -- the module mt.fft; stft, istft and their windows
#include "engine/ops/fft.h"

#include "bindings/functions/functions.h"

namespace mt::lua {
namespace {

using fft::Norm, fft::Frames;

/// fn over several dimensions, by default all or, for the names that end in 2, the last two.
template <auto fn, bool two>
constexpr auto over =
    [](const char* name, const Tensor& x, const Shape& s, const Dims& dims, Norm norm) {
      return fn(x, s, two && dims.size() == 0 ? Dims{-2, -1} : dims, norm, name);
    };

#define MT_LINE "n=nil, dim=-1, norm='backward')"
#define MT_DIMS "s=nil, [dim]=nil, norm='backward')"

/// Functions of mt.fft.
const Entry kFft[] = {
    {"fft(z, " MT_LINE,
     "The discrete Fourier transform along dim: the sums of z[j] exp(-2 pi i j k / n), k = 0 .. n - 1.\n"
     "z is complex: a tensor whose last dimension is (real, imaginary), the layout of torch.view_as_real; "
     "dim counts without that one. A real tensor, whose last size is not 2, has imaginary parts 0; if that "
     "size is 2, mt.complex(x) makes it complex. n cuts z, or appends zeros. "
     "norm is the direction that is divided by n, 'backward' or 'forward', or 'ortho': both are divided "
     "by the root of n. float16 and bfloat16 are computed in float32; a tensor of a GPU is copied to the CPU, "
     "and the result back.",
     bind<fft::fft>},
    {"ifft(z, " MT_LINE, "The inverse of fft.", bind<fft::ifft>},
    {"rfft(x, " MT_LINE,
     "The frequencies 0 .. n / 2 of real x, complex: [.. x n / 2 + 1 x 2]; the others are conjugates of them.",
     bind<fft::rfft>},
    {"irfft(z, " MT_LINE,
     "The inverse of rfft, real; n, the number of real elements, is 2 * (size - 1), unless given: it may be "
     "odd.\nThe imaginary parts of the frequencies 0 and n / 2 are ignored.",
     bind<fft::irfft>},
    {"fft2(z, " MT_DIMS,
     "fft over two dimensions, the last by default; s: their sizes, -1 unchanged.",
     bind<over<fft::fftn, true>>},
    {"ifft2(z, " MT_DIMS, "The inverse of fft2.", bind<over<fft::ifftn, true>>},
    {"rfft2(x, " MT_DIMS, "fft2 of real x; the last of the dimensions becomes n / 2 + 1.",
     bind<over<fft::rfftn, true>>},
    {"irfft2(z, " MT_DIMS, "The inverse of rfft2, real; s as n of irfft.",
     bind<over<fft::irfftn, true>>},
    {"fftn(z, " MT_DIMS,
     "fft over several dimensions, all (or the last, as many as s has) by default.",
     bind<over<fft::fftn, false>>},
    {"ifftn(z, " MT_DIMS, "The inverse of fftn.", bind<over<fft::ifftn, false>>},
    {"rfftn(x, " MT_DIMS, "fftn of real x; the last of the dimensions becomes n / 2 + 1.",
     bind<over<fft::rfftn, false>>},
    {"irfftn(z, " MT_DIMS, "The inverse of rfftn, real; s as n of irfft.",
     bind<over<fft::irfftn, false>>},
    {"fftfreq(n, d=1, dtype=nil, device='cpu')",
     "The frequencies of fft's elements, in cycles per unit of d, the distance between samples.",
     bind<[](int64_t n, double d, std::optional<Dtype> dtype, const Device& device) {
       return to(fft::fftfreq(n, d, dtype.value_or(default_dtype())), device);
     }>},
    {"rfftfreq(n, d=1, dtype=nil, device='cpu')", "The frequencies of rfft's elements.",
     bind<[](int64_t n, double d, std::optional<Dtype> dtype, const Device& device) {
       return to(fft::rfftfreq(n, d, dtype.value_or(default_dtype())), device);
     }>},
    {"fftshift(x, [dim]=nil, complex=nil)",
     "Moves frequency 0 to the middle of dim, all dimensions by default. Whether x is complex must be said "
     "if its last size is 2.",
     bind<[](const Tensor& x, const Dims& dims, std::optional<bool> complex) {
       return fft::fftshift(x, dims, complex);
     }>},
    {"ifftshift(x, [dim]=nil, complex=nil)", "The inverse of fftshift.", bind<fft::ifftshift>},
};

const Entry kComplexNumbers[] = {
    {"complex(re, im=nil)",
     "The complex tensor of two real ones, for mt.fft: mt.stack({re, im}, -1), or im 0.",
     bind<fft::complex>},
    {"polar(abs, angle)", "The complex tensor of absolute values and angles, see mt.complex.",
     bind<fft::polar>},
    {"complex_abs(z)", "The absolute values of complex z; the slope at 0 is 0.", bind<fft::abs>},
    {"complex_angle(z)", "The angles of complex z, in (-pi, pi].", bind<fft::angle>},
    {"complex_conj(z)", "The conjugates of complex z.", bind<fft::conj>},
    {"complex_mul(z, w)", "The products of complex z and w, which broadcast.", bind<fft::mul>},
};

#define MT_FRAMES "n_fft, hop_length=nil, win_length=nil, window=nil, center=true, "

Frames frames(int64_t n_fft, std::optional<int64_t> hop, std::optional<int64_t> win_length,
              const Tensor& window, bool center, bool normalized, bool onesided) {
  return {n_fft, hop, win_length, window, center, normalized, onesided};
}

const Entry kMethods[] = {
    {"stft(x, " MT_FRAMES "pad_mode='reflect', normalized=false, onesided=true)",
     "The rfft of overlapping frames of [samples] or [batch x samples]: complex [.. x frequencies x frames x "
     "2], as mt.fft.\nA frame has n_fft samples, times window (win_length numbers, n_fft by default, in the "
     "middle), and begins hop_length (n_fft / 4) after the one before. center: frames lie around their "
     "samples, x is padded by n_fft / 2 in pad_mode. normalized: divided by the root of n_fft. "
     "onesided=false: all n_fft frequencies.",
     bind<[](const Tensor& x, int64_t n_fft, std::optional<int64_t> hop,
             std::optional<int64_t> win_length, const Tensor& window, bool center, Padding pad_mode,
             bool normalized, bool onesided) {
       return fft::stft(x, frames(n_fft, hop, win_length, window, center, normalized, onesided),
                        pad_mode);
     }>},
    {"istft(z, " MT_FRAMES "normalized=false, onesided=true, length=nil)",
     "The samples whose stft with these options is nearest to complex [.. x frequencies x frames x 2].\n"
     "Each must be in a frame where the window is not 0. length cuts the samples, or adds zeros.",
     bind<[](const Tensor& z, int64_t n_fft, std::optional<int64_t> hop,
             std::optional<int64_t> win_length, const Tensor& window, bool center, bool normalized,
             bool onesided, std::optional<int64_t> length) {
       return fft::istft(z, frames(n_fft, hop, win_length, window, center, normalized, onesided),
                         length);
     }>},
};

#define MT_WINDOW(options) "(n, periodic=true, " options MT_SHAPED ")"

/// Pushes a window of argument 1; its options are before argument `i`, as of all constructors.
int push_window(const Args& a, int i, const auto& f) {
  const NewTensorOptions spec(a, i, default_dtype());
  return spec.push(a, to(f(a.integer(1), a.boolean(2), spec.dtype), spec.device));
}
template <auto fn> int window_body(Args& a) { return push_window(a, 3, fn); }

const Entry kWindows[] = {
    {"hann_window" MT_WINDOW(""),
     "n samples of sin^2, for mt.stft; periodic: of a period of n, else symmetric.",
     window_body<fft::hann_window>},
    {"hamming_window" MT_WINDOW("alpha=0.54, beta=0.46, "), "n samples of alpha - beta cos.",
     [](Args& a) {
       return push_window(a, 5, [&](int64_t n, bool periodic, Dtype dtype) {
         return fft::hamming_window(n, periodic, a.number(3), a.number(4), dtype);
       });
     }},
    {"blackman_window" MT_WINDOW(""), "n samples of 0.42 - 0.5 cos + 0.08 cos of twice the angle.",
     window_body<fft::blackman_window>},
    {"bartlett_window" MT_WINDOW(""), "n samples of a triangle.",
     window_body<fft::bartlett_window>},
};

}  // namespace

void register_fft(Registry& c) {
  c.functions(kWindows);
  c.functions(kComplexNumbers);
  c.both(kMethods);
}

void add_fft(lua_State* L) { add(L, kFft); }

}  // namespace mt::lua
