// create.cpp -- creating, copying and converting tensors
#include <cmath>
#include <cstring>

#include "engine/autograd/graph.h"
#include "engine/core/device.h"
#include "engine/ops/ops.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt {

/// Writes one element on a CPU, or fills all elements on a GPU.
static void fill_elements(const Tensor& out, const Tensor& in, Copy& c) {
  Tensor one;
  alignas(8) unsigned char number[8];
  c.from = c.to;
  if (in.impl()->number) {
    with_dtype(c.to, [&](auto x) {
      x = math::convert<decltype(x)>(in.at(0));
      std::memcpy(number, &x, sizeof x);
    });
    c.in = number;
  } else {
    one = to(view_of(in.detach(), {}, {}, in.offset()), c.to);
    c.in = one.data();
  }
  gpu_of(out.device()).fill(c);
}

void copy_elements(const Tensor& out, const Tensor& in, bool streams) {
  Copy c;
  c.to = out.dtype(), c.from = in.dtype();
  c.ndim = out.dim();
  const size_t bytes = sizeof(int64_t) * c.ndim;
  std::memcpy(c.size, out.impl()->size, bytes);
  std::memcpy(c.out_stride, out.impl()->stride, bytes);
  std::memcpy(c.in_stride, in.impl()->stride, bytes);
  c.out = out.data(), c.in = in.data();
  c.streams = streams;
  if (&in.device() != &out.device()) return fill_elements(out, in, c);
  out.device().copy(c);
}

const NodeType kClone{"clone", [](Node&, const Tensor& g, Tensor* dx) { dx[0] = g; }};
const NodeType kConvert{
    "to", [](Node& node, const Tensor& g, Tensor* dx) { dx[0] = to(g, node.kept<Dtype>()); }};
const NodeType kMove{"to", [](Node& node, const Tensor& g, Tensor* dx) {
                       dx[0] = to(g, *node.kept<const Device*>());
                     }};

Tensor full(const Shape& shape, double value, Dtype dtype, const Device& device) {
  check_value("full", value, dtype);
  Tensor out = empty(shape, dtype, device);
  NoGrad off;
  return fill_(out, value);
}
Tensor zeros(const Shape& shape, Dtype dtype, const Device& device) {
  return full(shape, 0, dtype, device);
}
Tensor ones(const Shape& shape, Dtype dtype, const Device& device) {
  return full(shape, 1, dtype, device);
}

Tensor eye(int64_t rows, int64_t columns, Dtype dtype, const Device& device) {
  Tensor out = zeros({rows, columns}, dtype, device);
  const int64_t n = std::min(rows, columns);
  if (n > 0) fill_(view_of(out, {n}, {columns + 1}, 0), 1);
  return out;
}

/// f(0.0), f(1.0), .. f(n - 1).
Tensor cpu_sequence(int64_t n, Dtype dtype, const auto& f) {
  return with_dtype(dtype, [&]<class T>(T) {
    return constants<T>({n}, [&](T* to) {
      parallel_strips(n, [=](int64_t i, int64_t end) {
        constexpr int many = 16;  // for 32-bit integers, which vector instructions convert
        for (; i + many <= end; i += many) {
          MT_INDEPENDENT
          for (int k = 0; k < many; ++k) to[i + k] = T(f(double(i) + double(k)));
        }
        for (; i < end; ++i) to[i] = T(f(double(i)));
      });
    });
  });
}
/// The same for an f that also takes tensors: a GPU computes it without synchronisation.
Tensor sequence(int64_t n, Dtype dtype, const Device& device, const auto& f) {
  if (is_cpu(device)) return cpu_sequence(n, dtype, f);
  return to(f(to(cumsum(ones({n}, Dtype::i64, device), 0) - 1.0, Dtype::f64)), dtype);
}

Tensor range(double first, double last, double step, Dtype dtype, const Device& device) {
  if (step == 0 || std::isnan(step))
    fail("range: the step is {}; it must not be 0 or nan", show(step));
  if (!std::isfinite(first) || !std::isfinite(last) || !std::isfinite(step))
    fail("range: {} to {} by {} is infinite or too long", show(first), show(last), show(step));
  const double count = std::floor((last - first) / step * (1 + 1e-12) + 1e-12) + 1;
  if (!(count < 1e13)) fail("range: {} to {} by {} is infinite or too long", first, last, step);
  const int64_t n = count > 0 ? int64_t(count) : 0;
  if (n > 0)
    check_value("range", first, dtype), check_value("range", first + double(n - 1) * step, dtype);
  if (!is_float(dtype) && step != std::floor(step))
    fail("range: the step {} does not fit into {}", step, dtype);
  if (dtype == Dtype::i64 && n > 1) {  // doubles are not exact from 2^53 on
    if (!is_cpu(device)) return (cumsum(ones({n}, dtype, device), 0) - 1.0) * step + first;
    return constants<int64_t>({n}, [&](int64_t* to) {
      parallel_strips(n, [=](int64_t i, int64_t end) {
        for (; i < end; ++i) to[i] = int64_t(first) + i * int64_t(step);
      });
    });
  }
  return sequence(n, dtype, device, [=](auto i) {
    using N = decltype(i);
    return N(first) + i * N(step);
  });
}

Tensor arange(int64_t n, const Device& device) {
  return range(0, double(n) - 1, 1, Dtype::i64, device);
}

/// Element i of n numbers from first to last, exact at both ends.
static auto equally_spaced(double first, double last, int64_t n) {
  return [=](auto i) {
    using N = decltype(i);
    const N at = i / N(double(std::max<int64_t>(n - 1, 1)));
    return N(first) * (N(1.0) - at) + N(last) * at;
  };
}

Tensor linspace(double first, double last, int64_t n, Dtype dtype, const Device& device) {
  if (!is_float(dtype)) fail("linspace: {} cannot hold fractions; use range", dtype);
  return sequence(n, dtype, device, equally_spaced(first, last, n));
}

Tensor logspace(double first, double last, int64_t n, double base, Dtype dtype,
                const Device& device) {
  if (!is_float(dtype)) fail("logspace: {} cannot hold fractions", dtype);
  const auto exponent = equally_spaced(first, last, n);
  const auto power = [=](double i) { return std::pow(base, exponent(i)); };
  return to(cpu_sequence(n, dtype, power), device);
}

Tensor tensor(std::initializer_list<double> values, Dtype dtype) {
  for (const double value : values) check_value("tensor", value, dtype);
  return to(tensor(values.begin(), {int64_t(values.size())}), dtype);
}

Tensor from_bytes(std::string_view bytes, Dtype dtype, const Shape* shape) {
  const int64_t item = item_size(dtype), have = int64_t(bytes.size());
  if (!shape && have % item)
    fail("frombuffer: {} bytes are not a whole number of {} elements of {} bytes", have, dtype,
         item);
  const Shape size = shape ? *shape : Shape{have / item};
  const int64_t n = checked_count("frombuffer", size);
  if (n * item != have)
    fail("frombuffer: {} {} needs {} bytes, the string has {}", size, dtype, n * item, have);
  Tensor out = empty(size, dtype);
  uint8_t* const to = out.data_as<uint8_t>();
  parallel_strips(have, [&](int64_t i, int64_t end) {
    std::memcpy(to + i, bytes.data() + i, end - i);
    for (; dtype == Dtype::b8 && i < end; ++i) to[i] = to[i] != 0;  // other bools are undefined
  });
  return out;
}

Tensor clone(const Tensor& x) {
  Tensor out = empty(x.shape(), x);
  copy_elements(out, x);
  if (wants_grad(x)) record(kClone, out, {&x});
  return out;
}

Tensor pin_memory(const Tensor& x) {
  if (!is_cpu(x.device()))
    fail("pin_memory: the tensor is on {}; only the CPU's can be pinned", x.device().name);
  if (x.impl()->storage->pinned && x.is_contiguous()) return x;
  if (capturing) check_may_wait(*capturing);
  const Tensor out = shape_of(x);
  const size_t bytes = x.numel() * item_size(x.dtype());
  out.impl()->storage = allocate_pinned(gpu_of(device_named("cuda")), bytes).release();
  copy_elements(out, x);
  return out;
}

Tensor contiguous(const Tensor& x) { return !x.defined() || x.is_contiguous() ? x : clone(x); }

Tensor to(const Tensor& x, Dtype dtype) {
  if (!x.defined() || x.dtype() == dtype) return x;
  Tensor out = empty(x.shape(), dtype, x.device());
  copy_elements(out, x);
  if (is_float(dtype) && wants_grad(x)) record(kConvert, out, {&x}).keep(x.dtype());
  return out;
}

/// The data that moves is contiguous; copies between two GPUs go through the CPU.
Tensor to(const Tensor& x, const Device& device, bool non_blocking) {
  const Device& from = x.device();
  if (&from == &device) return x;
  if (!is_cpu(from) && !is_cpu(device)) return to(to(x, cpu_device()), device);
  check_may_wait(is_cpu(from) ? device : from);
  const Tensor whole = contiguous(x.detach()), out = empty(x.shape(), x.dtype(), device);
  const size_t bytes = x.numel() * item_size(x.dtype());
  if (!is_cpu(from)) {
    from.download(out.data(), whole.data(), bytes);
  } else if (const Device* pinned = whole.impl()->storage->pinned) {  // for all GPUs
    gpu_of(device).upload_later(out.data(), whole.data(), bytes);
    if (!non_blocking || pinned != &device) device.sync();
  } else {
    device.upload(out.data(), whole.data(), bytes);
  }
  if (!non_blocking) check_device(is_cpu(from) ? device : from);
  if (wants_grad(x)) record(kMove, out, {&x}).keep(&from);
  return out;
}

}  // namespace mt
