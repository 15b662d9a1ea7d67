// conv_products.cu -- convolutions as cuBLAS products, one chunk of images at a time
//
// A 1 x 1 kernel that reads every position is a product on the plain images. Otherwise im2col first
// gathers the windows as a matrix with a row for each (channel, tap) and a column for each (image,
// position); for x the product is such a matrix, and col2im adds its elements to x. Chunks depend
// only on the shape: the same bits on every run.
#include "kernels/cuda/conv.h"
#include "kernels/cuda/cublas.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

#ifdef __CUDACC__
/// The minimum number of multiplications, and of channels of the result that share a column.
constexpr double kWork = 1 << 22;
constexpr int64_t kChannels = 16, kMinGatherChannels = 32, kPlaces = 16;
constexpr int64_t kColumns = int64_t(1) << 25;   // elements of a chunk's columns
constexpr int64_t kPartials = int64_t(1) << 22;  // elements of a weight's partial sums
#else                                            // so that small tests reach it
constexpr double kWork = 1;
constexpr int64_t kChannels = 1, kMinGatherChannels = 1, kPlaces = 1;
constexpr int64_t kColumns = 4096, kPartials = 2048;
#endif
constexpr int64_t kMaxColumns = int64_t(1) << 28;  // elements of an image's columns
constexpr int64_t kMaxCalls = 1024, kMaxEntries = 65535;

/// The images [first, first + images) of group g.
struct Chunk {
  Conv c;
  int64_t g, first, images;
};
MT_HD int64_t x_plane(const Chunk& j, int64_t image, int64_t channel) {
  return (((j.first + image) * j.c.groups + j.g) * j.c.inputs + channel) * area(j.c.size);
}

/// im2col: to[channel, tap][image, position] = the element that the window at this position reads.
template <class T> __global__ void gather_columns(const __grid_constant__ Chunk j, T* to) {
  const Conv& c = j.c;
  const int64_t places = area(c.out), across = j.images * places;
  for (const int64_t e : cuda::turns(c.inputs * across)) {
    int64_t column, place;
    const int64_t channel = divide(e, across, &column), image = divide(column, places, &place);
    const T* const plane = static_cast<const T*>(c.x) + x_plane(j, image, channel);
    const Corner from(c, PlanePosition(place, c.out));
    T* at = to + channel * area(c.kernel) * across + column;
    for (int64_t p = 0; p < c.kernel[0]; ++p) {
      const int64_t h = from.at[0] + p * c.dilation[0];
      const bool inside = within(h, c.size[0]);
      for (int64_t q = 0; q < c.kernel[1]; ++q, at += across) {
        const int64_t w = from.at[1] + q * c.dilation[1];
        *at = inside && within(w, c.size[1]) ? plane[h * c.size[1] + w] : T(0);
      }
    }
  }
}

/// col2im: x = the sum over the taps of its elements in the columns.
template <class T>
__global__ void add_columns(const __grid_constant__ Chunk j, const Exact<T>* from) {
  const Conv& c = j.c;
  const int64_t places = area(c.out), across = j.images * places, n = j.images * c.inputs;
  for (const int64_t e : cuda::turns(n * area(c.size))) {
    int64_t at, channel;
    const int64_t image = divide(divide(e, area(c.size), &at), c.inputs, &channel);
    const PlanePosition place(at, c.size);
    const int64_t h = place.of[0] - c.offset[0], w = place.of[1] - c.offset[1];
    const Exact<T>* const columns = from + channel * area(c.kernel) * across + image * places;
    Exact<T> sum = 0;
    for (int64_t i = 0; i < c.kernel[0]; ++i) {
      const int64_t p = window_at(c, 0, h - i * c.dilation[0]);
      if (p < 0) continue;
      for (int64_t k = 0; k < c.kernel[1]; ++k) {
        const int64_t q = window_at(c, 1, w - k * c.dilation[1]);
        if (q >= 0) sum += columns[(i * c.kernel[1] + k) * across + p * c.out[1] + q];
      }
    }
    static_cast<T*>(c.x)[x_plane(j, image, channel) + at] = T(sum);
  }
}

template <class T> __global__ void set_bias(const __grid_constant__ Conv c, int64_t n) {
  for (const int64_t e : cuda::turns(n)) {
    int64_t place, channel;
    divide(divide(e, area(c.out), &place), c.groups * c.outputs, &channel);
    static_cast<T*>(c.y)[e] = static_cast<const T*>(c.bias)[channel];
  }
}
template <class T>
__global__ void add_partials(const Exact<T>* from, T* w, int64_t n, int64_t parts) {
  for (const int64_t e : cuda::turns(n)) {
    double sum = 0;
    for (int64_t part = 0; part < parts; ++part) sum += double(from[part * n + e]);
    w[e] = T(sum);
  }
}

template <class... P, class... A> void start(void (*kernel)(P...), int64_t n, const A&... a) {
  cuda::launch_each("conv", kernel, n, a...);
}

/// The products of a convolution. An image has `depth` rows of columns and `places` columns.
template <class T> class Products {
 public:
  using Sum = Exact<T>;
  Products(const Conv& c, const cuda::CublasInUse& blas)
      : c_(c),
        blas_(blas),
        taps_(area(c.kernel)),
        depth_(c.inputs * taps_),
        places_(area(c.out)),
        plain_(is_plain(c)) {}

  /// Whether products are faster, by an estimate of the work.
  bool is_faster() const {
    if (c_.outputs < (plain_ ? kChannels : kMinGatherChannels) || c_.inputs * taps_ < kChannels)
      return false;
    return places_ >= kPlaces && work_of(c_) >= kWork && places_ <= kMaxColumns / depth_ &&
           c_.outputs <= INT32_MAX && double(depth_) * double(c_.outputs) <= double(kMaxColumns) &&
           c_.groups * ((c_.batch + chunk(depth_) - 1) / chunk(depth_)) <= kMaxCalls;
  }
  bool run() {
    if (c_.part == ConvPart::output) return output();
    if (c_.part == ConvPart::input) return input();
    return c_.outputs * depth_ <= (c_.outputs + depth_) * places_ ? weight()
                                                                  : weight_of_long_rows();
  }

 private:
  /// The number of images in a chunk whose columns have `rows` rows.
  int64_t chunk(int64_t rows) const {
    const int64_t fit = kColumns / (rows * places_), most = smaller(c_.batch, kMaxEntries);
    return plain_ ? most : smaller(most, fit > 1 ? fit : 1);
  }
  T* x_at(int64_t g, int64_t image) const {
    return static_cast<T*>(c_.x) + (image * c_.groups + g) * c_.inputs * area(c_.size);
  }
  T* y_at(int64_t g, int64_t image) const {
    return static_cast<T*>(c_.y) + (image * c_.groups + g) * c_.outputs * places_;
  }
  T* w_at(int64_t g) const { return static_cast<T*>(c_.w) + g * c_.outputs * depth_; }
  int64_t x_step() const { return c_.groups * c_.inputs * area(c_.size); }
  int64_t y_step() const { return c_.groups * c_.outputs * places_; }
  template <class S>
  bool multiply(const cuda::BlasProduct::Side& a, const cuda::BlasProduct::Side& b, S* to,
                int64_t ld, int64_t step, int64_t m, int64_t n, int64_t k, int64_t entries,
                bool accumulate) const {
    if (cuda::stopped()) return true;
    return cuda::multiply(blas_, {a, b, to, ld, step, m, n, k, entries, cuda::kBlasType<T>,
                                  cuda::kBlasType<S>, accumulate, c_.tf32});
  }
  /// The columns of these images: gathered into `room`, or the images themselves.
  cuda::BlasProduct::Side columns(const Chunk& j, T* room) const {
    if (plain_) return {x_at(j.g, j.first), places_, x_step(), false};
    start(gather_columns<T>, c_.inputs * j.images * places_, j, room);
    return {room, j.images * places_, places_, false};
  }
  template <class F> bool chunks(int64_t most, const F& each) const {
    for (int64_t g = 0; g < c_.groups; ++g)
      for (int64_t first = 0; first < c_.batch; first += most)
        if (!each(Chunk{c_, g, first, smaller(most, c_.batch - first)})) return false;
    return true;
  }

  bool output() const {
    const int64_t most = chunk(depth_);
    const cuda::Scratch room(plain_ ? 0 : size_t(most * depth_ * places_) * sizeof(T));
    const int64_t n = c_.batch * y_step();
    if (c_.bias) start(set_bias<T>, n, c_, n);
    return chunks(most, [&](const Chunk& j) {
      return multiply({w_at(j.g), depth_, 0, false}, columns(j, room.as<T>()), y_at(j.g, j.first),
                      places_, y_step(), c_.outputs, places_, depth_, j.images, c_.bias != nullptr);
    });
  }

  bool input() const {
    const int64_t most = chunk(depth_);
    const cuda::Scratch room(plain_ ? 0 : size_t(most * depth_ * places_) * sizeof(Sum));
    return chunks(most, [&](const Chunk& j) {
      const cuda::BlasProduct::Side a{w_at(j.g), depth_, 0, true};
      const cuda::BlasProduct::Side b{y_at(j.g, j.first), places_, y_step(), false};
      if (plain_)
        return multiply(a, b, x_at(j.g, j.first), places_, x_step(), c_.inputs, places_, c_.outputs,
                        j.images, false);
      if (!multiply(a, b, room.as<Sum>(), j.images * places_, places_, depth_, places_, c_.outputs,
                    j.images, false))
        return false;
      start(add_columns<T>, j.images * c_.inputs * area(c_.size), j, room.as<Sum>());
      return true;
    });
  }

  /// Computes one product per image, a few images at a time, and adds each to its own partial sum.
  bool weight() const {
    const int64_t n = c_.outputs * depth_, most = chunk(depth_);
    const int64_t parts = smaller(most, kPartials / n > 1 ? kPartials / n : 1);
    const cuda::Scratch room(plain_ ? 0 : size_t(most * depth_ * places_) * sizeof(T));
    const cuda::Scratch partial(parts * n * sizeof(Sum));
    return chunks(most, [&](const Chunk& j) {
      cuda::BlasProduct::Side b = columns(j, room.as<T>());
      b.transposed = true;
      for (int64_t i = 0; i < j.images; i += parts) {
        b.at = static_cast<const T*>(b.at) + (i > 0 ? parts * b.step : 0);
        if (!multiply({y_at(j.g, j.first + i), places_, y_step(), false}, b, partial.as<Sum>(),
                      depth_, n, c_.outputs, depth_, places_, smaller(parts, j.images - i),
                      j.first + i > 0))
          return false;
      }
      if (j.first + j.images == c_.batch)
        start(add_partials<T>, n, partial.as<Sum>(), w_at(j.g), n, parts);
      return true;
    });
  }

  /// Gathers the images of a chunk side by side, for one product with long rows.
  bool weight_of_long_rows() const {
    const int64_t n = c_.outputs * depth_, rows = c_.outputs + depth_;
    const int64_t fit = kColumns / (rows * places_), most = smaller(c_.batch, fit > 1 ? fit : 1);
    const cuda::Scratch room(most * rows * places_ * sizeof(T)), sums(n * sizeof(Sum));
    T* const of_y = room.as<T>() + most * depth_ * places_;
    return chunks(most, [&](const Chunk& j) {
      Chunk y = j;  // treats y as an image that 1 x 1 windows read
      y.c.x = c_.y, y.c.inputs = c_.outputs;
      for (int d = 0; d < 2; ++d) {
        y.c.size[d] = c_.out[d], y.c.kernel[d] = y.c.stride[d] = 1, y.c.offset[d] = 0;
      }
      const int64_t across = j.images * places_;
      start(gather_columns<T>, c_.inputs * across, j, room.as<T>());
      start(gather_columns<T>, c_.outputs * across, y, of_y);
      if (!multiply({of_y, across, 0, false}, {room.as<T>(), across, 0, true}, sums.as<Sum>(),
                    depth_, 0, c_.outputs, depth_, across, 1, j.first > 0))
        return false;
      if (j.first + j.images == c_.batch)
        start(add_partials<T>, n, sums.as<Sum>(), w_at(j.g), n, int64_t(1));
      return true;
    });
  }

  Conv c_;
  cuda::CublasInUse blas_;
  int64_t taps_, depth_, places_;
  bool plain_;
};

template <class T> bool by_products(const Conv& c) {
  if (!Products<T>(c, {}).is_faster()) return false;
  const cuda::CublasInUse blas = cuda::cublas();
  if (cuda::stopped()) return true;
  if (!blas.handle) return false;
  const cuda::Timed timed("conv");
  const bool done = Products<T>(c, blas).run() || cuda::stopped();
  cuda::started("conv");
  return done;
}

}  // namespace

bool conv_by_products(const Conv& c) {
  switch (c.dtype) {
    case Dtype::f64: return by_products<double>(c);
    case Dtype::f16: return by_products<Float16>(c);
    case Dtype::bf16: return by_products<Bfloat16>(c);
    default: return by_products<float>(c);
  }
}

}  // namespace MT_ISA
}  // namespace mt
