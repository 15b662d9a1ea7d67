// page_server.cpp -- a local HTTP server with one page, on its own thread
#include "engine/io/page_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/core/error.h"

namespace mt {
namespace {

constexpr size_t kMaxRequest = 8192, kMaxClients = 32;
constexpr double kTimeout = 10;  // seconds for a request and its response

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The value of a header without leading spaces; empty if the header is missing. The request must
/// end with a line break.
std::string header(const std::string& request, const char* name) {
  const size_t length = std::strlen(name);
  for (size_t at = request.find("\r\n"); at != std::string::npos; at = request.find("\r\n", at)) {
    at += 2;
    if (strncasecmp(request.c_str() + at, name, length) != 0 || request[at + length] != ':')
      continue;
    const size_t first = request.find_first_not_of(' ', at + length + 1);
    return request.substr(first, request.find("\r\n", first) - first);
  }
  return {};
}

std::string reply(const char* status, const char* type, const std::string& body, uint64_t version) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nX-Page: {}\r\n"
      "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
      "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; img-src data:; connect-src 'self'; frame-ancestors 'none'\r\n"
      "Connection: close\r\n\r\n{}",
      status, type, body.size(), version, body);
}

}  // namespace

struct PageServer::Client {
  File socket;
  std::string request, answer;
  size_t sent = 0;
  uint64_t delivers = 0;  // the page that counts as fetched when all is sent
  double deadline = 0;
  bool done = false;
};

PageServer::PageServer(const char* operation, int64_t port)
    : page_(std::make_shared<const std::string>()),
      asked_(-INFINITY) {
  if (port < 0 || port > 65535) fail("{}: port is {}, expected 0 to 65535", operation, port);
  listening_ = File(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (listening_) setsockopt(listening_.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(uint16_t(port));
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof place;
  sockaddr* const address = reinterpret_cast<sockaddr*>(&place);
  int ends[2];
  if (!listening_ || bind(listening_.fd(), address, size) != 0 ||
      listen(listening_.fd(), 16) != 0 || getsockname(listening_.fd(), address, &size) != 0 ||
      pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    fail("{}: cannot serve on 127.0.0.1 port {}: {}", operation, port, std::strerror(errno));
  wake_read_ = File(ends[0]), wake_write_ = File(ends[1]);
  port_ = ntohs(place.sin_port);
  sigset_t all, before;  // signals are handled by the main thread
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

PageServer::~PageServer() {
  wake_write_.close();  // the thread detects the end of the pipe
  thread_.join();
}

void PageServer::publish(std::string page) {
  auto next = std::make_shared<const std::string>(std::move(page));
  const std::lock_guard lock(guard_);
  page_ = std::move(next);
  ++version_;
}

double PageServer::idle() const { return now() - asked_.load(std::memory_order_relaxed); }

bool PageServer::wait_fetched(double seconds) {
  std::unique_lock lock(guard_);
  return fetched_changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                                   [this] { return fetched_ == version_; });
}

void PageServer::delivered(uint64_t version) {
  const std::lock_guard lock(guard_);
  fetched_ = std::max(fetched_, version);
  fetched_changed_.notify_all();
}

std::string PageServer::answer(const std::string& request, uint64_t& delivers) {
  // Any port is allowed, because a tunnel may use another; another host name means another site.
  std::string host = header(request, "host");
  host.resize(std::min(host.find(':'), host.size()));
  if (host != "127.0.0.1" && host != "localhost")
    return reply("403 Forbidden", "text/plain", "this address is not served\n", 0);
  if (request.rfind("GET ", 0) != 0)
    return reply("405 Method Not Allowed", "text/plain", "only GET\n", 0);
  const std::string target = request.substr(4, request.find_first_of(" \r", 4) - 4);
  if (target != "/" && target.rfind("/?", 0) != 0)
    return reply("404 Not Found", "text/plain", "there is one page, /\n", 0);
  asked_.store(now(), std::memory_order_relaxed);
  std::shared_ptr<const std::string> page;
  uint64_t version;
  {
    const std::lock_guard lock(guard_);
    page = page_, version = version_;
  }
  delivers = version;
  if (target == "/?have=" + std::to_string(version))
    return fmt::format("HTTP/1.1 204 No Content\r\nX-Page: {}\r\nConnection: close\r\n\r\n",
                       version);
  return reply("200 OK", "text/html; charset=utf-8", *page, version);
}

/// Reads available input and writes output; c is done at the end, or when the peer has closed.
void PageServer::serve(Client& c) {
  while (c.answer.empty()) {
    char piece[2048];
    const ssize_t n = recv(c.socket.fd(), piece, sizeof piece, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return void(c.done = true);
    c.request.append(piece, n);
    const size_t end = c.request.find("\r\n\r\n");
    if (end != std::string::npos) c.answer = answer(c.request.substr(0, end + 2), c.delivers);
    else if (c.request.size() > kMaxRequest)
      c.answer = reply("431 Request Header Fields Too Large", "text/plain", "too long\n", 0);
  }
  while (c.sent < c.answer.size()) {
    const ssize_t n =
        send(c.socket.fd(), c.answer.data() + c.sent, c.answer.size() - c.sent, MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return void(c.done = true);
    c.sent += n;
  }
  if (c.delivers) delivered(c.delivers);
  c.done = true;
}

void PageServer::run() {
  std::vector<Client> clients;
  std::vector<pollfd> watched;
  while (true) {
    const bool room = clients.size() < kMaxClients;
    watched.assign({{wake_read_.fd(), POLLIN, 0}, {listening_.fd(), short(room ? POLLIN : 0), 0}});
    for (const Client& c : clients)
      watched.push_back({c.socket.fd(), short(c.answer.empty() ? POLLIN : POLLOUT), 0});
    if (poll(watched.data(), watched.size(), clients.empty() ? -1 : 1000) < 0 && errno != EINTR)
      return;
    if (watched[0].revents) return;
    const double time = now();
    for (size_t i = 0; i < clients.size(); ++i) {
      try {
        if (watched[i + 2].revents) serve(clients[i]);
      } catch (const std::exception&) {  // out of memory
        clients[i].done = true;
      }
      clients[i].done |= time > clients[i].deadline;
    }
    std::erase_if(clients, [](const Client& c) { return c.done; });
    if (!(watched[1].revents & POLLIN)) continue;
    const int fd = accept4(listening_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) continue;
    Client& c = clients.emplace_back();
    c.socket = File(fd), c.deadline = time + kTimeout;
  }
}

}  // namespace mt
