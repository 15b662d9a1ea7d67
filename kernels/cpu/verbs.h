// verbs.h -- the verbs that each instruction set's copy of the CPU kernels defines
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
void matmul(const Matmul&);
void gather(const Gather&);
void scatter(const Gather&);
void random(const Random&);
void sgd(const SgdStep&);
void adam(const AdamStep&);

}  // namespace MT_ISA
}  // namespace mt
