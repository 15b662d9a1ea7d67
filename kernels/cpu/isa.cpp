// isa.cpp -- the verbs of one instruction set, gathered in its table
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {

void fill_verbs(Device& device) {
  device.map = map;
  device.copy = copy;
  device.reduce = reduce;
  device.scan = scan;
  device.sort = sort;
  device.softmax = softmax;
  device.normalize = normalize;
  device.matmul = matmul;
  device.conv = conv;
  device.max_pool = max_pool;
  device.gather = gather;
  device.scatter = scatter;
  device.ravel_index = ravel_index;
  device.count_mask = count_mask;
  device.compress = compress;
  device.nonzero = nonzero;
  device.search = search;
  device.random = random;
  device.sgd = sgd;
  device.adam = adam;
}

}  // namespace MT_ISA
}  // namespace mt
