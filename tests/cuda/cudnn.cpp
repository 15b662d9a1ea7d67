// cudnn.cpp -- cuDNN for the emulation: its convolutions by loops, checked as cuDNN checks them
//
// Part of the emulated plug-in, which is its own cuDNN where MTORCH_CUDNN names it. Its heuristics
// propose first what must not be taken: an algorithm whose bits change from run to run, one that
// needs too large a workspace, one that does not know the shape, float32 by TF32, 16-bit floats by
// a transform. A convolution by one of those, or by another than the first that is left, ends the
// program; so does one without its workspace, which is overwritten.
// TF32 is calculated with where the mathematics of float32 is the default.
//   MTORCH_EMULATED_CUDNN=2       the first two handles cannot be made
//   MTORCH_EMULATED_CUDNN=none    only what must not be taken is proposed
//   MTORCH_EMULATED_CUDNN=nchw    nothing is proposed for NHWC
//   MTORCH_EMULATED_CUDNN=fails   every convolution fails
#include <cuda_runtime.h>

#include <cstdio>
#include <string>
#include <vector>

#include "kernels/math/reduced_floats.h"

#define MT_SHOWN extern "C" __attribute__((visibility("default")))

namespace {

using mt::Bfloat16, mt::Float16;
enum { kFloat = 0, kDouble = 1, kHalf = 2, kBfloat16 = 9 };
enum {
  kSuccess = 0,
  kAllocationFailed = 1003,
  kBadParam = 2000,
  kNotSupported = 3000,
  kFailed = 5000
};
enum { kDefaultMath = 0, kTensorMath = 1, kFmaMath = 3 };
enum { kOutput, kInput, kWeight };
// output, input, weight; questions for an algorithm; descriptors that live; in TF32; of NHWC
int64_t calls[7];

struct Handle {
  bool has_stream = false;
};
struct Descriptor {
  enum { tensor, filter, convolution } kind;
  int type = -1, format = 0, size[4] = {};
  int pad[2] = {}, stride[2] = {}, dilation[2] = {}, groups = 1, math = kDefaultMath;
};
struct Proposal {
  int algorithm, status;
  float ms;
  size_t workspace;
  int determinism, math, reserved[3];
};

std::string mode() {
  const char* const text = std::getenv("MTORCH_EMULATED_CUDNN");
  return text ? text : "";
}

[[noreturn]] void stop(const char* what) {
  std::fprintf(stderr, "emulated cuDNN: %s\n", what);
  std::abort();
}

/// A convolution, of which one of the three tensors is the result.
struct Job {
  int part;
  Descriptor x, w, y, conv;
  const void *first, *second;
  void* result;
  double alpha, beta;
};

bool is_tf32(const Job& j) { return j.x.type == kFloat && j.conv.math != kFmaMath; }
bool is_half(int type) { return type == kHalf || type == kBfloat16; }

/// Whether the sizes and types belong together.
bool fits(const Job& j) {
  const Descriptor &x = j.x, &w = j.w, &y = j.y, &c = j.conv;
  if (x.kind != Descriptor::tensor || y.kind != Descriptor::tensor ||
      w.kind != Descriptor::filter || c.kind != Descriptor::convolution || x.type != w.type ||
      x.type != y.type || x.format != w.format || x.format != y.format ||
      c.type != (x.type == kDouble ? kDouble : kFloat) || x.size[0] != y.size[0] ||
      x.size[1] != c.groups * w.size[1] || y.size[1] != w.size[0] || w.size[0] % c.groups != 0)
    return false;
  for (int d = 0; d < 2; ++d) {
    const int span = c.dilation[d] * (w.size[2 + d] - 1) + 1;
    if (y.size[2 + d] != (x.size[2 + d] + 2 * c.pad[d] - span) / c.stride[d] + 1) return false;
  }
  return true;
}

/// Where an element lies.
int64_t index(const Descriptor& d, int64_t n, int64_t c, int64_t h, int64_t w) {
  return d.format == 0 ? ((n * d.size[1] + c) * d.size[2] + h) * d.size[3] + w
                       : ((n * d.size[2] + h) * d.size[3] + w) * d.size[1] + c;
}
/// Calls f(index in x, in w, in y) for each product of the sum.
template <class F> void each(const Job& j, const F& f) {
  const Descriptor &x = j.x, &w = j.w, &y = j.y, &c = j.conv;
  const int inputs = w.size[1], outputs = w.size[0] / c.groups;
  for (int n = 0; n < x.size[0]; ++n)
    for (int o = 0; o < w.size[0]; ++o)
      for (int i = 0; i < inputs; ++i)
        for (int p = 0; p < y.size[2]; ++p)
          for (int q = 0; q < y.size[3]; ++q)
            for (int k = 0; k < w.size[2]; ++k)
              for (int l = 0; l < w.size[3]; ++l) {
                const int h = p * c.stride[0] - c.pad[0] + k * c.dilation[0];
                const int v = q * c.stride[1] - c.pad[1] + l * c.dilation[1];
                if (h < 0 || h >= x.size[2] || v < 0 || v >= x.size[3]) continue;
                f(index(x, n, o / outputs * inputs + i, h, v), index(w, o, i, k, l),
                  index(y, n, o, p, q));
              }
}

template <class T> void compute(const Job& j) {
  const Descriptor& r = j.part == kOutput ? j.y : j.part == kInput ? j.x : j.w;
  std::vector<double> sums(size_t(r.size[0]) * size_t(r.size[1]) * size_t(r.size[2]) *
                           size_t(r.size[3]));
  const T *const a = static_cast<const T*>(j.first), *const b = static_cast<const T*>(j.second);
  const auto number = [tf32 = is_tf32(j)](const T& t) {
    if constexpr (std::is_same_v<T, double>) return t;
    else return double(tf32 ? emulation::rounded_to_tf32(float(t)) : float(t));
  };
  each(j, [&](int64_t x, int64_t w, int64_t y) {
    if (j.part == kOutput) sums[size_t(y)] += number(a[x]) * number(b[w]);
    else if (j.part == kInput) sums[size_t(x)] += number(a[w]) * number(b[y]);
    else sums[size_t(w)] += number(a[x]) * number(b[y]);
  });
  T* const out = static_cast<T*>(j.result);
  for (size_t i = 0; i < sums.size(); ++i) {
    const double sum = j.alpha * sums[i] + (j.beta == 0 ? 0 : j.beta * number(out[i]));
    if constexpr (std::is_same_v<T, double>) out[i] = sum;
    else out[i] = T(float(sum));
  }
}

/// What the heuristics propose, best first; the one that is to be taken stands at the end but one.
std::vector<Proposal> proposals(const Job& j) {
  const int part = j.part, type = j.x.type;
  const int transform = part == kOutput ? 6 : part == kInput ? 4 : 5;
  const int math = is_half(type) || is_tf32(j) ? kTensorMath
                   : type == kFloat            ? kFmaMath
                                               : kDefaultMath;
  const auto proposal = [](int algorithm, int status, size_t workspace, bool repeats, int math) {
    return Proposal{algorithm, status, 1, workspace, repeats, math, {}};
  };
  std::vector<Proposal> all{proposal(0, kSuccess, 0, false, math),
                            proposal(1, kSuccess, (size_t(256) << 20) + 1, true, math),
                            proposal(1, kNotSupported, 0, true, math)};
  if (math == kFmaMath) all.push_back(proposal(1, kSuccess, 0, true, kTensorMath));
  if (is_half(type)) all.push_back(proposal(transform, kSuccess, 0, true, kTensorMath));
  if (mode() == "none" || (mode() == "nchw" && j.x.format != 0)) return all;
  all.push_back(proposal(is_half(type) ? 1 : transform, kSuccess, 1000, true, math));
  all.push_back(proposal(1, kSuccess, 0, true, math));
  return all;
}

int propose(const Job& j, int room, int* count, Proposal* to) {
  ++calls[3];
  if (!fits(j)) return kBadParam;
  const bool good = j.x.type == kFloat
                        ? j.conv.math == kFmaMath || j.conv.math == kDefaultMath
                        : j.conv.math == (is_half(j.x.type) ? kTensorMath : kDefaultMath);
  if (!good) stop("the mathematics are not set");
  *count = 0;
  for (const Proposal& p : proposals(j))
    if (*count < room) to[(*count)++] = p;
  return kSuccess;
}

int run(const Job& j, const Handle* handle, int algorithm, void* workspace, size_t bytes) {
  ++calls[j.part];
  if (!fits(j)) return kBadParam;
  if (mode() == "fails") return kFailed;
  calls[5] += is_tf32(j), calls[6] += j.x.format != 0;
  const std::vector<Proposal> all = proposals(j);
  const Proposal& right = all[all.size() - 2];
  if (!handle->has_stream) stop("the stream is not set");
  if (algorithm != right.algorithm || j.conv.math != right.math)
    stop("another algorithm should be taken");
  if (!workspace || bytes < right.workspace) stop("the workspace is too small");
  emulation::start("cuDNN", false, 1, 1, 0, [=] {
    std::memset(workspace, 0xab, bytes);
    if (j.x.type == kDouble) compute<double>(j);
    else if (j.x.type == kFloat) compute<float>(j);
    else if (j.x.type == kHalf) compute<Float16>(j);
    else compute<Bfloat16>(j);
  });
  return kSuccess;
}

double number_of(const void* at, const Descriptor& x) {
  return x.type == kDouble ? *static_cast<const double*>(at)
                           : double(*static_cast<const float*>(at));
}

}  // namespace

/// How often something was done: what, see above.
MT_SHOWN int64_t emulated_cudnn_calls(int which) { return calls[which]; }

MT_SHOWN size_t cudnnGetVersion() { return 91900; }
MT_SHOWN const char* cudnnGetErrorString(int status) {
  return status == kAllocationFailed ? "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"
         : status == kFailed         ? "CUDNN_STATUS_EXECUTION_FAILED"
                                     : "CUDNN_STATUS_BAD_PARAM";
}
MT_SHOWN int cudnnCreate(Handle** handle) {
  static int fails = std::atoi(mode().c_str());
  if (fails > 0) return --fails, kAllocationFailed;
  *handle = new Handle;
  return kSuccess;
}
MT_SHOWN int cudnnDestroy(Handle* handle) { return delete handle, kSuccess; }
MT_SHOWN int cudnnSetStream(Handle* handle, void*) { return handle->has_stream = true, kSuccess; }

MT_SHOWN int cudnnCreateTensorDescriptor(Descriptor** d) {
  *d = new Descriptor{Descriptor::tensor};
  return ++calls[4], kSuccess;
}
MT_SHOWN int cudnnCreateFilterDescriptor(Descriptor** d) {
  *d = new Descriptor{Descriptor::filter};
  return ++calls[4], kSuccess;
}
MT_SHOWN int cudnnCreateConvolutionDescriptor(Descriptor** d) {
  *d = new Descriptor{Descriptor::convolution};
  return ++calls[4], kSuccess;
}
MT_SHOWN int cudnnDestroyTensorDescriptor(Descriptor* d) { return delete d, --calls[4], kSuccess; }
MT_SHOWN int cudnnDestroyFilterDescriptor(Descriptor* d) { return delete d, --calls[4], kSuccess; }
MT_SHOWN int cudnnDestroyConvolutionDescriptor(Descriptor* d) {
  return delete d, --calls[4], kSuccess;
}

MT_SHOWN int cudnnSetTensor4dDescriptor(Descriptor* d, int format, int type, int n, int c, int h,
                                        int w) {
  if ((format != 0 && format != 1) || n < 1 || c < 1 || h < 1 || w < 1) return kBadParam;
  d->type = type, d->format = format, d->size[0] = n, d->size[1] = c, d->size[2] = h,
  d->size[3] = w;
  return kSuccess;
}
MT_SHOWN int cudnnSetFilter4dDescriptor(Descriptor* d, int type, int format, int k, int c, int h,
                                        int w) {
  return cudnnSetTensor4dDescriptor(d, format, type, k, c, h, w);
}
MT_SHOWN int cudnnSetConvolution2dDescriptor(Descriptor* d, int pad_h, int pad_w, int stride_h,
                                             int stride_w, int dilation_h, int dilation_w, int mode,
                                             int compute) {
  if (mode != 1 || pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1 || dilation_h < 1 ||
      dilation_w < 1)
    return kBadParam;
  d->pad[0] = pad_h, d->pad[1] = pad_w, d->stride[0] = stride_h, d->stride[1] = stride_w;
  d->dilation[0] = dilation_h, d->dilation[1] = dilation_w, d->type = compute;
  return kSuccess;
}
MT_SHOWN int cudnnSetConvolutionGroupCount(Descriptor* d, int groups) {
  return d->groups = groups, kSuccess;
}
MT_SHOWN int cudnnSetConvolutionMathType(Descriptor* d, int math) {
  return d->math = math, kSuccess;
}

MT_SHOWN int cudnnGetConvolutionForwardAlgorithm_v7(Handle*, const Descriptor* x,
                                                    const Descriptor* w, const Descriptor* conv,
                                                    const Descriptor* y, int room, int* count,
                                                    Proposal* to) {
  return propose({kOutput, *x, *w, *y, *conv, nullptr, nullptr, nullptr, 1, 0}, room, count, to);
}
MT_SHOWN int cudnnGetConvolutionBackwardDataAlgorithm_v7(Handle*, const Descriptor* w,
                                                         const Descriptor* y,
                                                         const Descriptor* conv,
                                                         const Descriptor* x, int room, int* count,
                                                         Proposal* to) {
  return propose({kInput, *x, *w, *y, *conv, nullptr, nullptr, nullptr, 1, 0}, room, count, to);
}
MT_SHOWN int cudnnGetConvolutionBackwardFilterAlgorithm_v7(Handle*, const Descriptor* x,
                                                           const Descriptor* y,
                                                           const Descriptor* conv,
                                                           const Descriptor* w, int room,
                                                           int* count, Proposal* to) {
  return propose({kWeight, *x, *w, *y, *conv, nullptr, nullptr, nullptr, 1, 0}, room, count, to);
}
MT_SHOWN int cudnnConvolutionForward(Handle* handle, const void* alpha, const Descriptor* x,
                                     const void* x_at, const Descriptor* w, const void* w_at,
                                     const Descriptor* conv, int algorithm, void* workspace,
                                     size_t bytes, const void* beta, const Descriptor* y,
                                     void* to) {
  return run(
      {kOutput, *x, *w, *y, *conv, x_at, w_at, to, number_of(alpha, *x), number_of(beta, *x)},
      handle, algorithm, workspace, bytes);
}
MT_SHOWN int cudnnConvolutionBackwardData(Handle* handle, const void* alpha, const Descriptor* w,
                                          const void* w_at, const Descriptor* y, const void* y_at,
                                          const Descriptor* conv, int algorithm, void* workspace,
                                          size_t bytes, const void* beta, const Descriptor* x,
                                          void* to) {
  return run({kInput, *x, *w, *y, *conv, w_at, y_at, to, number_of(alpha, *x), number_of(beta, *x)},
             handle, algorithm, workspace, bytes);
}
MT_SHOWN int cudnnConvolutionBackwardFilter(Handle* handle, const void* alpha, const Descriptor* x,
                                            const void* x_at, const Descriptor* y, const void* y_at,
                                            const Descriptor* conv, int algorithm, void* workspace,
                                            size_t bytes, const void* beta, const Descriptor* w,
                                            void* to) {
  return run(
      {kWeight, *x, *w, *y, *conv, x_at, y_at, to, number_of(alpha, *x), number_of(beta, *x)},
      handle, algorithm, workspace, bytes);
}
