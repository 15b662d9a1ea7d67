// exchange.h -- work in which other processes take part, which a replay of a recorded step repeats
#pragma once
#include <functional>

#include "engine/core/tensor.h"

namespace mt {

/// Work that reads `in` and writes `out`; a tensor that it changes in place is in both.
struct Exchange {
  TensorList in, out;
  std::function<void(const TensorList& in, const TensorList& out)> run;
};
/// Runs it, unless exchanges are skipped. A recorder of steps keeps it and runs it again at each replay.
void run_exchange(const Exchange&);

/// How many this thread has run or skipped.
int64_t exchange_count();
/// Whether the exchanges of this thread are skipped: they copy `in` to `out`, or write 0. mt.compile compares a step
/// with its replay in this way, without the other processes.
void skip_exchanges(bool);
bool exchanges_are_skipped();

}  // namespace mt
