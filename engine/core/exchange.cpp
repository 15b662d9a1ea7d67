// exchange.cpp -- runs, records or skips an exchange
#include "engine/core/exchange.h"

#include "engine/autograd/graph.h"
#include "engine/autograd/inplace.h"

namespace mt {
namespace {

thread_local bool skips_exchanges = false;
thread_local int64_t exchanges_seen = 0;

void skip(const Exchange& e) {
  const NoGrad off;
  for (size_t k = 0; k < e.out.size(); ++k) {
    const bool has_source = k < e.in.size() && e.in[k].shape() == e.out[k].shape();
    if (!has_source) fill_(e.out[k], 0);
    else if (e.in[k].impl() != e.out[k].impl()) copy_(e.out[k], e.in[k]);
  }
}

}  // namespace

void run_exchange(const Exchange& e) {
  ++exchanges_seen;
  if (skips_exchanges && step_recorder)
    step_recorder->on_external_effect("it is recorded while another step is compared");
  if (skips_exchanges) skip(e);
  else if (step_recorder) step_recorder->on_exchange(e);
  else e.run(e.in, e.out);
}
int64_t exchange_count() { return exchanges_seen; }
void skip_exchanges(bool on) { skips_exchanges = on; }
bool exchanges_are_skipped() { return skips_exchanges; }

}  // namespace mt
