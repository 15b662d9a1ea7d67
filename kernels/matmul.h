// matmul.h -- the arguments of a matrix product, on every device
#pragma once
#include "kernels/base.h"

namespace mt {

/// c = a . b (+ c when `accumulate`), for each index of the batch. Strides count elements and may
/// have any value; in a and b a stride of 0 broadcasts. c overlaps neither a nor b, and its
/// elements do not overlap one another.
struct Matmul {
  // Of all three: a float or an integer, not bool. A CPU multiplies 16-bit floats if takes_half(); i8
  // is the dtype of b only, a and c are float32 (a CPU's takes_int8).
  Dtype dtype;
  int64_t m, n, k;  // a is m x k, b is k x n, c is m x n; c is zero if k == 0
  const void* a;
  const void* b;
  void* c;
  int64_t a_row, a_col, b_row, b_col, c_row, c_col;
  int batch_dims;  // leading dimensions, 0 for a plain product
  int64_t batch_size[kMaxDims], a_batch[kMaxDims], b_batch[kMaxDims], c_batch[kMaxDims];
  bool accumulate;
  bool tf32 = false;  // a GPU may round factors of float32 to 11 bits
  bool wide = false;  // of takes_half() only: whether c is float32
  bool pairs =
      false;  // of float32, if multiplies_pairs(): elements of a and b are pairs of bfloat16 along k
  const void* bias =
      nullptr;  // of floats on a CPU, without a batch: n elements of c's dtype, added to each row
};

/// Entries of a batch that share b and are adjacent in a and c are rows of one larger product.
inline Matmul merge_rows(Matmul q) {
  for (; q.batch_dims > 0 && q.b_batch[q.batch_dims - 1] == 0; --q.batch_dims) {
    const int64_t size = q.batch_size[q.batch_dims - 1];
    const int64_t a = q.a_batch[q.batch_dims - 1], c = q.c_batch[q.batch_dims - 1];
    if (q.m == 1) q.a_row = a, q.c_row = c;
    else if (size != 1 && (a != q.m * q.a_row || c != q.m * q.c_row)) break;
    q.m *= size;
  }
  return q;
}

/// The leading dimension with which BLAS reads a matrix by rows, or 0 if it cannot.
inline int64_t leading_dimension(int64_t row, int64_t col, int64_t rows, int64_t cols) {
  if (rows > INT32_MAX || (col != 1 && cols > 1)) return 0;
  const int64_t step = rows > 1 ? row : cols;
  return step >= cols && step <= INT32_MAX ? step : 0;
}

}  // namespace mt
