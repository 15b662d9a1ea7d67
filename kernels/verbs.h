// verbs.h -- the verbs that each backend defines: an instruction set of the CPU, CUDA
#pragma once
#include "kernels/device.h"

namespace mt {
inline namespace MT_ISA {

void map(const Map&);
void copy(const Copy&);
void reduce(const Reduce&);
void scan(const Scan&);
void sort(const Sort&);
void softmax(const Softmax&);
void normalize(const Normalize&);
void matmul(const Matmul&);
void conv(const Conv&);
void max_pool(const MaxPool&);
bool gather(const Gather&);
bool scatter(const Gather&);
bool ravel_index(const RavelIndex&);
void count_mask(const Mask&);
void compress(const Compress&);
void nonzero(const Nonzero&);
void search(const Search&);
void random(const Random&);
void sgd(const SgdStep&);
void adam(const AdamStep&);

}  // namespace MT_ISA
}  // namespace mt
