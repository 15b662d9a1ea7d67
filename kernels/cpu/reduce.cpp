// reduce.cpp -- the reduce verb on the CPU
//
// The order of additions depends on the shape alone: the reduced elements are cut into pieces of
// kPiece, a piece is summed in kLanes interleaved partial results, and pieces are joined in their
// order. Threads take outputs or pieces; neither changes the order. Floats are summed in double, so
// that 2^25 times 0.1f is still right.
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/verbs.h"
#include "kernels/table.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int64_t kPiece = 16384;
constexpr int kLanes = 16;
constexpr int64_t kBuffer = 512;   // elements gathered at a time where the reduced ones lie apart
constexpr int64_t kColumns = 128;  // outputs that are reduced side by side

template <class Op, class T> struct Accumulator { using type = T; };
template <> struct Accumulator<op::Sum, float> { using type = double; };
template <> struct Accumulator<op::Prod, float> { using type = double; };
template <> struct Accumulator<op::Sum, bool> { using type = int64_t; };
template <> struct Accumulator<op::Sum, uint8_t> { using type = int64_t; };
template <> struct Accumulator<op::Sum, int32_t> { using type = int64_t; };
template <> struct Accumulator<op::Prod, bool> { using type = int64_t; };
template <> struct Accumulator<op::Prod, uint8_t> { using type = int64_t; };
template <> struct Accumulator<op::Prod, int32_t> { using type = int64_t; };

template <class P> struct PointeeOf;
template <class T> struct PointeeOf<T*> { using type = T; };
template <class P> using Pointee = typename PointeeOf<P>::type;

/// Calls `body(output, its first element)` for every output, threads taking them in groups.
template <class T, class Body>
void each_output(const Reduce& r, int64_t outputs, int64_t elements, const Body& body) {
  constexpr int64_t kOutputs = 64;
  parallel((outputs + kOutputs - 1) / kOutputs, outputs * elements > 2 * kGrain,
           [&](int64_t group) {
             const int64_t end = smaller(outputs, (group + 1) * kOutputs);
             for (int64_t o = group * kOutputs; o < end; ++o)
               body(o, static_cast<const T*>(r.in) +
                           offset_of(o, r.kept, r.kept_size, r.kept_stride));
           });
}

/// One reduction over elements of type T, answers of type Out.
template <class Op, class T> struct Reducer {
  using A = typename Accumulator<Op, T>::type;

  /// `n` contiguous elements, joined lane by lane.
  __attribute__((noinline)) static A run(const T* x, int64_t n) {
    A lane[kLanes];
    for (A& l : lane) l = Op::template identity<A>();
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      for (int l = 0; l < kLanes; ++l) lane[l] = Op::join(lane[l], math::convert<A>(x[i + l]));
    A rest = Op::template identity<A>();
    for (; i < n; ++i) rest = Op::join(rest, math::convert<A>(x[i]));
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int l = 0; l < half; ++l) lane[l] = Op::join(lane[l], lane[l + half]);
    return Op::join(lane[0], rest);
  }

  /// The reduced elements [from, to) of one output; what is not contiguous passes through a buffer.
  __attribute__((noinline)) static A piece(const T* x, const Reduce& r, int64_t from, int64_t to) {
    if (r.reduced == 0) return math::convert<A>(*x);
    const int last = r.reduced - 1;
    const int64_t row = r.reduced_size[last], step = r.reduced_stride[last];
    A result = Op::template identity<A>();
    for (int64_t i = from; i < to;) {
      int64_t n = smaller(to - i, row - i % row);
      const T* at = x + offset_of(i, r.reduced, r.reduced_size, r.reduced_stride);
      T buffer[kBuffer];
      if (step != 1) {
        n = smaller(n, kBuffer);
        move_run(reinterpret_cast<char*>(buffer), 1, reinterpret_cast<const char*>(at), step, n,
                 sizeof(T));
        at = buffer;
      }
      result = Op::join(result, run(at, n));
      i += n;
    }
    return result;
  }

  /// Outputs whose elements are neighbours in memory: whole rows are joined into a row of partial
  /// results.
  static void columns(const Reduce& r, char* out, int64_t outputs, int64_t elements) {
    const int inner = r.kept - 1;
    const int64_t width = r.kept_size[inner], tiles = (width + kColumns - 1) / kColumns;
    parallel(outputs / width * tiles, outputs * elements > 2 * kGrain, [&](int64_t tile) {
      const int64_t row = tile / tiles, first = tile % tiles * kColumns,
                    n = smaller(kColumns, width - first);
      const T* x = static_cast<const T*>(r.in) +
                   offset_of(row * width + first, r.kept, r.kept_size, r.kept_stride);
      A sum[kColumns];
      for (int64_t j = 0; j < n; ++j) sum[j] = Op::template identity<A>();
      for (int64_t i = 0; i < elements; ++i) {
        const T* at = x + offset_of(i, r.reduced, r.reduced_size, r.reduced_stride);
        for (int64_t j = 0; j < n; ++j) sum[j] = Op::join(sum[j], math::convert<A>(at[j]));
      }
      store(r, out, row * width + first, n, sum);
    });
  }

  /// Writes the answers of the outputs [first, first + n), which lie in one row.
  __attribute__((noinline)) static void store(const Reduce& r, char* out, int64_t first, int64_t n,
                                              const A* value) {
    const int64_t step = r.kept > 0 ? r.out_stride[r.kept - 1] : 1;
    char* at = out + offset_of(first, r.kept, r.kept_size, r.out_stride) * item_size(r.out_dtype);
    auto write = [&](auto* cell) {
      using Out = Pointee<decltype(cell)>;
      for (int64_t i = 0; i < n; ++i) cell[i * step] = math::convert<Out>(value[i]);
    };
    if (r.out_dtype == Dtype::f32) write(reinterpret_cast<float*>(at));
    else if (r.out_dtype == Dtype::f64) write(reinterpret_cast<double*>(at));
    else if (r.out_dtype == Dtype::i64) write(reinterpret_cast<int64_t*>(at));
    else if (r.out_dtype == Dtype::i32) write(reinterpret_cast<int32_t*>(at));
    else if (r.out_dtype == Dtype::u8) write(reinterpret_cast<uint8_t*>(at));
    else write(reinterpret_cast<bool*>(at));
  }

  /// A few outputs of many elements: threads share the pieces of one output.
  static bool long_outputs(const Reduce& r, char* out, int64_t outputs, int64_t elements) {
    const int64_t pieces = (elements + kPiece - 1) / kPiece;
    constexpr int64_t kMost = 4096;
    if (pieces < 2 || outputs >= 16) return false;
    for (int64_t o = 0; o < outputs; ++o) {
      const T* x = static_cast<const T*>(r.in) + offset_of(o, r.kept, r.kept_size, r.kept_stride);
      A total = Op::template identity<A>();
      for (int64_t begin = 0; begin < pieces; begin += kMost) {
        A part[kMost];
        const int64_t n = smaller(kMost, pieces - begin);
        for (int64_t p = 0; p < n; ++p) part[p] = Op::template identity<A>();
        parallel(n, elements > 2 * kGrain, [&](int64_t p) {
          const int64_t from = (begin + p) * kPiece;
          part[p] = piece(x, r, from, smaller(elements, from + kPiece));
        });
        for (int64_t p = 0; p < n; ++p) total = Op::join(total, part[p]);
      }
      store(r, out, o, 1, &total);
    }
    return true;
  }

  static void reduce(const Reduce& r) {
    char* out = static_cast<char*>(r.out);
    const int64_t outputs = count(r.kept, r.kept_size), elements = count(r.reduced, r.reduced_size);
    if (outputs == 0) return;
    if (elements > 0 && r.kept > 0 && r.kept_stride[r.kept - 1] == 1 &&
        r.kept_size[r.kept - 1] >= 4 && !(r.reduced > 0 && r.reduced_stride[r.reduced - 1] == 1))
      return columns(r, out, outputs, elements);
    if (long_outputs(r, out, outputs, elements)) return;
    each_output<T>(r, outputs, elements, [&](int64_t o, const T* x) {
      A total = Op::template identity<A>();
      for (int64_t from = 0; from < elements; from += kPiece)
        total = Op::join(total, piece(x, r, from, smaller(elements, from + kPiece)));
      store(r, out, o, 1, &total);
    });
  }
};

/// The position of the first largest (`Largest`) or smallest element; a NaN counts as the extreme.
template <class T, bool Largest> void arg_extreme(const Reduce& r) {
  const int64_t outputs = count(r.kept, r.kept_size), elements = count(r.reduced, r.reduced_size);
  each_output<T>(r, outputs, elements, [&](int64_t o, const T* x) {
    int64_t best = 0;
    T champion = *x;
    for (int64_t i = 1; i < elements && champion == champion; ++i) {
      const T value = x[offset_of(i, r.reduced, r.reduced_size, r.reduced_stride)];
      if ((Largest ? value > champion : value < champion) || value != value)
        champion = value, best = i;
    }
    static_cast<int64_t*>(r.out)[offset_of(o, r.kept, r.kept_size, r.out_stride)] = best;
  });
}

using Verb = void (*)(const Reduce&);
/// Reductions of bools take bool alone: the engine has asked each element first.
template <class Op, class T> constexpr Verb verb() {
  if constexpr (Op::info.boolean && sizeof(T) > sizeof(bool)) return nullptr;
  else return Reducer<Op, T>::reduce;
}
template <class L> struct Table;
template <class... Op> struct Table<op::List<Op...>> {
  static constexpr Verb row[][kDtypes] = {{verb<Op, bool>(), verb<Op, uint8_t>(),
                                           verb<Op, int32_t>(), verb<Op, int64_t>(),
                                           verb<Op, float>(), verb<Op, double>()}...};
};
constexpr Verb arg_row[2][kDtypes] = {
    {arg_extreme<bool, true>, arg_extreme<uint8_t, true>, arg_extreme<int32_t, true>,
     arg_extreme<int64_t, true>, arg_extreme<float, true>, arg_extreme<double, true>},
    {arg_extreme<bool, false>, arg_extreme<uint8_t, false>, arg_extreme<int32_t, false>,
     arg_extreme<int64_t, false>, arg_extreme<float, false>, arg_extreme<double, false>}};

}  // namespace

void reduce(const Reduce& call) {
  const int dtype = static_cast<int>(call.dtype);
  Reduce r = call;
  int64_t* const kept[2] = {r.out_stride, r.kept_stride};
  r.kept = collapse(r.kept, r.kept_size, kept);
  int64_t* const reduced[1] = {r.reduced_stride};
  r.reduced = collapse(r.reduced, r.reduced_size, reduced);
  if (r.op >= kArgmax) arg_row[r.op - kArgmax][dtype](r);
  else Table<op::Reductions>::row[r.op][dtype](r);
}

}  // namespace MT_ISA
}  // namespace mt
