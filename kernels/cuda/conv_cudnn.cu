// conv_cudnn.cu -- convolutions by cuDNN, if it is installed and has a suitable algorithm
//
// cuDNN's heuristics propose algorithms, best first. The first is used that gives the same bits on
// every run, has a small workspace, and computes as our kernels do: float32 without TF32 unless it
// is allowed, 16-bit floats in float32, rounded once and not transformed. The choice is cached by
// shape; none is made during graph capture. Tensor cores read channels-last data: with enough
// channels, 16-bit floats are transposed to it around the call.
#include "kernels/cuda/conv.h"

#include <array>
#include <cstdio>
#include <map>

#include "kernels/cuda/cudnn.h"
#include "kernels/table.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

namespace dnn = cuda::dnn;

#ifdef __CUDACC__
constexpr size_t kMaxPlans = 1024;
constexpr int64_t kAligned = 8;  // channels in 16 bytes
#else
constexpr size_t kMaxPlans = 32;  // so that small tests reach it
constexpr int64_t kAligned = 2;
#endif

using Shape = std::array<int64_t, 19>;
Shape shape_of(const Conv& c) {
  return {int64_t(c.part), int64_t(c.dtype), c.batch,     c.groups,    c.inputs,
          c.outputs,       c.size[0],        c.size[1],   c.kernel[0], c.kernel[1],
          c.out[0],        c.out[1],         c.stride[0], c.stride[1], c.dilation[0],
          c.dilation[1],   c.offset[0],      c.offset[1], c.tf32};
}

/// Whether cuDNN can represent c: the same padding on both sides, and sizes that fit int.
/// Depthwise convolutions are left to our kernels, which read each value once.
bool is_representable(const Conv& c) {
  if (c.inputs == 1 && c.outputs == 1) return false;
  for (int d = 0; d < 2; ++d) {
    const int64_t span = c.dilation[d] * (c.kernel[d] - 1) + 1, pad = -c.offset[d];
    for (const int64_t n : {c.stride[d], c.dilation[d], c.size[d], span, pad + 1})
      if (n < 1 || n > INT32_MAX) return false;
    if (c.size[d] + 2 * pad < span || (c.size[d] + 2 * pad - span) / c.stride[d] + 1 != c.out[d])
      return false;
  }
  const int64_t inputs = c.groups * c.inputs, outputs = c.groups * c.outputs;
  return c.batch * inputs * area(c.size) <= INT32_MAX &&
         c.batch * outputs * area(c.out) <= INT32_MAX &&
         outputs * c.inputs * area(c.kernel) <= INT32_MAX;
}

/// Strided gradients of float32 are slower with cuDNN's deterministic algorithms (H100, training: 1x1s2
/// 256->512x56 5.0 ms against 0.9, 3x3s2 128x56 1.7 against 1.3), and so are strided sums of few channels.
bool is_fast(const Conv& c) {
  const bool strided = c.stride[0] > 1 || c.stride[1] > 1;
  return c.dtype != Dtype::f32 || c.tf32 || !strided ||
         (c.part == ConvPart::output && c.inputs >= 8);
}

int type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64: return dnn::kDouble;
    case Dtype::f16: return dnn::kHalf;
    case Dtype::bf16: return dnn::kBfloat16;
    default: return dnn::kFloat;
  }
}
bool prefers_nhwc(const Conv& c) {
  return is_half(c.dtype) && c.inputs % kAligned == 0 && c.outputs % kAligned == 0;
}
bool is_exact(const Conv& c) { return c.dtype == Dtype::f32 && !c.tf32; }
int math_of(const Conv& c) {
  return is_half(c.dtype) ? dnn::kTensor : is_exact(c) ? dnn::kFma : dnn::kDefault;
}

/// Whether the results of an algorithm have the required bits.
bool is_suitable(const Conv& c, const dnn::Proposal& p) {
  constexpr size_t max_workspace = size_t(256) << 20;
  if (p.status != dnn::kSuccess || p.determinism != dnn::kDeterministic ||
      p.workspace > max_workspace || p.math == dnn::kTensorConverting)
    return false;
  if (is_exact(c)) return p.math != dnn::kTensor;
  // The higher numbers are FFT and Winograd.
  return !is_half(c.dtype) || p.algorithm <= (c.part == ConvPart::output ? 3 : 1);
}

/// The order of x, w, y for each part: the two inputs as cuDNN takes them, and the output.
constexpr int kX = 0, kW = 1, kY = 2;
constexpr int kOrder[][3] = {{kX, kW, kY}, {kW, kY, kX}, {kX, kY, kW}};

/// The cuDNN descriptors of a convolution, and its algorithm, or -1 if there is none.
struct Plan {
  const cuda::Cudnn& lib;
  dnn::Descriptor of[3] = {}, conv = nullptr;  // of x, w, y
  int algorithm = -1;
  size_t workspace = 0;
  bool nhwc = false;

  Plan(const cuda::CudnnInUse& in_use, const Conv& c) : lib(*in_use.library) {
    if (!create()) return;
    for (const bool channels_last : {true, false}) {
      if (algorithm >= 0 || (channels_last && !prefers_nhwc(c))) continue;
      nhwc = channels_last;
      if (describe(c)) choose(in_use.handle, c);
    }
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    if (of[kX]) lib.destroy_tensor(of[kX]);
    if (of[kY]) lib.destroy_tensor(of[kY]);
    if (of[kW]) lib.destroy_filter(of[kW]);
    if (conv) lib.destroy_conv(conv);
  }

 private:
  bool create() {
    return good(lib.create_tensor(&of[kX])) && good(lib.create_tensor(&of[kY])) &&
           good(lib.create_filter(&of[kW])) && good(lib.create_conv(&conv));
  }
  bool describe(const Conv& c) {
    const int format = nhwc ? dnn::kNhwc : dnn::kNchw;
    const int type = type_of(c.dtype), compute = type_of(compute_dtype(c.dtype));
    const int inputs = int(c.groups * c.inputs), outputs = int(c.groups * c.outputs);
    return good(lib.set_tensor(of[kX], format, type, int(c.batch), inputs, int(c.size[0]),
                               int(c.size[1]))) &&
           good(lib.set_tensor(of[kY], format, type, int(c.batch), outputs, int(c.out[0]),
                               int(c.out[1]))) &&
           good(lib.set_filter(of[kW], type, format, outputs, int(c.inputs), int(c.kernel[0]),
                               int(c.kernel[1]))) &&
           good(lib.set_conv(conv, int(-c.offset[0]), int(-c.offset[1]), int(c.stride[0]),
                             int(c.stride[1]), int(c.dilation[0]), int(c.dilation[1]),
                             dnn::kCrossCorrelation, compute)) &&
           good(lib.set_groups(conv, int(c.groups))) && good(lib.set_math(conv, math_of(c)));
  }
  void choose(dnn::Handle handle, const Conv& c) {
    dnn::Proposal all[16] = {};
    int count = 0;
    const auto [a, b, result] = kOrder[int(c.part)];
    if (!good(lib.propose[int(c.part)](handle, of[a], of[b], conv, of[result], 16, &count, all)))
      return;
    for (int i = 0; i < count && algorithm < 0; ++i) {
      if (!is_suitable(c, all[i])) continue;
      // The workspace is for the proposed math type; without TF32 the type that was set is kept.
      if (!is_exact(c) && !good(lib.set_math(conv, all[i].math))) continue;
      algorithm = all[i].algorithm, workspace = all[i].workspace;
    }
  }
  static bool good(int status) { return status == dnn::kSuccess; }
};

/// The plan for a shape, or null if it is not cached and graph capture prevents a choice.
Plan* plan_of(const cuda::CudnnInUse& in_use, const Conv& c) {
  // Never destroyed: at process exit, cuDNN may already be unloaded.
  static auto* const plans_of_gpu = new std::map<Shape, Plan>[kMaxGpus];
  std::map<Shape, Plan>& plans = plans_of_gpu[cuda::current_device()];
  const Shape shape = shape_of(c);
  const auto found = plans.find(shape);
  if (found != plans.end()) return &found->second;
  if (cuda::capturing()) return nullptr;
  if (plans.size() >= kMaxPlans) plans.clear();
  return &plans.try_emplace(shape, in_use, c).first->second;
}

/// Copies a tensor with strides `in`, of three or four dimensions, to a contiguous one.
template <int N>
void pack(Dtype dtype, const int64_t (&size)[N], const int64_t (&in)[N], const void* from,
          void* to) {
  Copy e{};
  e.to = e.from = dtype, e.out = to, e.in = from, e.ndim = N;
  int64_t step = 1;
  for (int d = N - 1; d >= 0; --d) {
    e.size[d] = size[d], e.in_stride[d] = in[d], e.out_stride[d] = step;
    step *= size[d];
  }
  copy(e);
}

/// A tensor in cuDNN's layout: batch, channels and positions; NHWC has the channels last.
struct CudnnTensor {
  void* at;
  int64_t batch, channels, places;
  int64_t count() const { return batch * channels * places; }
  void to_nhwc(Dtype dtype, void* to) const {
    pack(dtype, {batch, places, channels}, {channels * places, 1, places}, at, to);
  }
  void from_nhwc(Dtype dtype, const void* from) const {
    pack(dtype, {batch, channels, places}, {channels * places, 1, channels}, from, at);
  }
};

void add_bias(const Conv& c) {
  Map m{};
  m.op = op::id<op::Add>, m.dtype = c.dtype, m.inputs = 2;
  m.data[0] = m.data[1] = c.y, m.data[2] = const_cast<void*>(c.bias);
  const int64_t channels = c.groups * c.outputs, places = area(c.out);
  const int64_t size[3] = {c.batch, channels, places}, y[3] = {channels * places, places, 1},
                bias[3] = {0, 1, 0};
  m.ndim = 3;
  for (int d = 0; d < 3; ++d) {
    m.size[d] = size[d];
    m.stride[0][d] = m.stride[1][d] = y[d], m.stride[2][d] = bias[d];
  }
  map(m);
}

void report_failure(const Conv& c, const char* status) {
  static bool was_reported = false;
  if (was_reported) return;
  was_reported = true;
  const auto n = [](int64_t i) { return static_cast<long long>(i); };
  std::fprintf(stderr,
               "mtorch: a convolution of cuDNN failed (%s): %lld images, %lld channels of "
               "%lld x %lld, kernel %lld x %lld, %lld channels out; it and others that fail no "
               "longer use cuDNN; MTORCH_CUDNN=0 disables cuDNN\n",
               status, n(c.batch), n(c.groups * c.inputs), n(c.size[0]), n(c.size[1]),
               n(c.kernel[0]), n(c.kernel[1]), n(c.groups * c.outputs));
}

}  // namespace

bool conv_by_cudnn(const Conv& c) {
  if (!is_representable(c)) return false;
  const cuda::CudnnInUse in_use = cuda::cudnn(is_fast(c) ? work_of(c) : 0);
  if (!in_use.handle || cuda::stopped()) return false;
  Plan* const plan = plan_of(in_use, c);
  if (!plan || plan->algorithm < 0) return false;

  const cuda::Timed timed("conv");
  const auto [a, b, result] = kOrder[int(c.part)];
  const CudnnTensor layouts[] = {{c.x, c.batch, c.groups * c.inputs, area(c.size)},
                                 {c.w, c.groups * c.outputs, c.inputs, area(c.kernel)},
                                 {c.y, c.batch, c.groups * c.outputs, area(c.out)}};
  const auto room = [&](int role) {
    return plan->nhwc ? size_t(layouts[role].count() * item_size(c.dtype)) : 0;
  };
  const cuda::Scratch workspace(plan->workspace), other_x(room(kX)), other_w(room(kW)),
      other_y(room(kY));
  if (cuda::stopped()) return true;
  void* const other[] = {other_x.as<void>(), other_w.as<void>(), other_y.as<void>()};
  void* data[3];
  for (int role : {kX, kW, kY}) {
    data[role] = room(role) > 0 ? other[role] : layouts[role].at;
    if (plan->nhwc && role != result) layouts[role].to_nhwc(c.dtype, data[role]);
  }
  if (cuda::capturing()) cuda::keep(&c, sizeof c);

  const bool is_double = c.dtype == Dtype::f64;
  const cuda::Factor one(is_double, 1), zero(is_double, 0);
  const int status = plan->lib.run[int(c.part)](
      in_use.handle, &one, plan->of[a], data[a], plan->of[b], data[b], plan->conv, plan->algorithm,
      workspace.as<void>(), plan->workspace, &zero, plan->of[result], data[result]);
  if (status != dnn::kSuccess) {
    plan->algorithm = -1;
    report_failure(c, plan->lib.text(status));
    return false;
  }
  if (plan->nhwc) layouts[result].from_nhwc(c.dtype, data[result]);
  cuda::count_convolution();
  cuda::started("conv");
  if (c.bias) add_bias(c);
  return true;
}

}  // namespace MT_ISA
}  // namespace mt
