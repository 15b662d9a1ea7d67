// page_server.h -- one page for browsers on this machine, served by a thread of its own
#pragma once
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "engine/core/file.h"

namespace mt {

/// HTTP on 127.0.0.1: GET / answers with the page published last, GET /?have=N with 204 where that is
/// still page N. Requests that name another host are refused, so that no page of another site reads
/// it. The thread computes nothing, handles no signal and sleeps until a browser asks.
class PageServer {
 public:
  /// Listens on the port, 0: any that is free. Every failure is an mt::Error that begins with the
  /// operation.
  PageServer(const char* operation, int64_t port);
  PageServer(const PageServer&) = delete;
  ~PageServer();

  int port() const { return port_; }
  void publish(std::string page);
  /// Seconds since a browser asked last; infinity before the first.
  double idle() const;
  /// Waits until a browser has what was published last, at most so many seconds; whether one has.
  bool wait_fetched(double seconds);

 private:
  struct Client;
  void run();
  std::string answer(const std::string& request, uint64_t& delivers);
  void serve(Client& client);
  void delivered(uint64_t version);

  int port_ = 0;
  File listening_, wake_read_, wake_write_;
  std::mutex guard_;
  std::condition_variable fetched_changed_;
  std::shared_ptr<const std::string> page_;  // these three under guard_
  uint64_t version_ = 0, fetched_ = 0;
  std::atomic<double> asked_;
  std::thread thread_;
};

}  // namespace mt
