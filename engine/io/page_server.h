// page_server.h -- a local HTTP server with one page, on its own thread
#pragma once
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "engine/core/file.h"

namespace mt {

/// HTTP on 127.0.0.1: GET / returns the page published last, GET /?have=N returns 204 if that is
/// still page N. Requests with another host name are refused, so that pages of other sites cannot
/// read it. The thread computes nothing, handles no signals and sleeps until a request arrives.
class PageServer {
 public:
  /// Listens on the port; 0 selects a free one. Every failure is an mt::Error that starts with
  /// `operation`.
  PageServer(const char* operation, int64_t port);
  PageServer(const PageServer&) = delete;
  ~PageServer();

  int port() const { return port_; }
  void publish(std::string page);
  /// Seconds since the last request of a browser; infinity before the first.
  double idle() const;
  /// Waits at most `seconds` until a browser has fetched the last page; returns whether one has.
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
  std::shared_ptr<const std::string> page_;  // guard_ protects these three
  uint64_t version_ = 0, fetched_ = 0;
  std::atomic<double> asked_;
  std::thread thread_;
};

}  // namespace mt
