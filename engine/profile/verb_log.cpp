// verb_log.cpp -- the settings of MTORCH_LOG, and the lines that it prints
#include "engine/profile/verb_log.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "engine/profile/profile.h"

namespace mt::profile {

constinit bool logging = false;
thread_local VerbCalls* VerbCalls::current_ = nullptr;

VerbCalls::VerbCalls() : before_(std::exchange(current_, this)) { watch_devices(); }
VerbCalls::~VerbCalls() {
  current_ = before_;
  if (!current_ && depth() == 0) unwatch_devices();
}

VerbLine::~VerbLine() {
  if (text_.empty()) return;
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began_;
  if (VerbCalls* const all = VerbCalls::current()) {
    const CpuCounters now = cpu_counters();
    all->calls.push_back(
        {std::move(text_),
         run_ ? std::optional(*run_) : std::nullopt,
         took.count(),
         {now.loops - work_.loops, now.pieces - work_.pieces, now.products - work_.products,
          now.onednn - work_.onednn, now.elements - work_.elements, now.threads}});
    return;
  }
  text_ += fmt::format(" {:.1f} us\n", took.count());
  std::fwrite(text_.data(), 1, text_.size(),
              stderr);  // one write, so that lines of threads do not mix
}

void start_log() {
  const char* const setting = std::getenv("MTORCH_LOG");
  if (!setting || !*setting || logging) return;
  if (std::string_view(setting) != "verbs") {
    std::fprintf(stderr, "mtorch: MTORCH_LOG=%s is ignored; the only log is 'verbs'\n", setting);
    return;
  }
  logging = true;
  watch_devices();
}

}  // namespace mt::profile
