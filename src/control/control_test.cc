// The protocol between program and daemon, without a daemon: round trips of all messages, refusal of
// malformed ones, descriptors, versions and process pages.
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <functional>
#include <initializer_list>
#include <thread>

#include "base/prng.h"
#include "control/capture_messages.h"
#include "control/fault_messages.h"
#include "control/identity.h"
#include "control/message_socket.h"
#include "control/messages.h"
#include "control/names.h"
#include "control/process_page.h"
#include "control/recognition_messages.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace rrdma::control::control_test {

template <typename Message>
Message round_trip(const Message& message) {
  const auto datagram = encode(message, 7);
  const auto header = parse_header(datagram);
  EXPECT_TRUE(header.has_value());
  EXPECT_EQ(header->serial, 7u);
  const auto again = decode<Message>(Octets(datagram).subspan(sizeof(Header)));
  EXPECT_TRUE(again.has_value());
  return again.value_or(Message{});
}

Hello full_hello() {
  Hello hello;
  hello.role = Role::kKeeper;
  hello.program = "ib_write_bw";
  hello.devices = "rrdma0 on eth0";
  hello.has_page = true;
  hello.claims = {{.slot = 9, .next_index = 77, .families = 3},
                  {.slot = 255, .next_index = 0xffff, .families = 1}};
  return hello;
}

TEST(Messages, SurviveARoundTrip) {
  const Hello hello = round_trip(full_hello());
  EXPECT_EQ(hello.role, Role::kKeeper);
  EXPECT_EQ(hello.program, "ib_write_bw");
  ASSERT_EQ(hello.claims.size(), 2u);
  EXPECT_EQ(hello.claims[1].slot, 255);
  EXPECT_EQ(hello.claims[1].next_index, 0xffff);

  ForwardFrame forward;
  forward.content.source.octets[15] = 9;
  forward.content.frame.assign(kFrameMax, 0xa5);
  EXPECT_EQ(round_trip(forward).content.frame, forward.content.frame);
  EXPECT_EQ(round_trip(forward).content.source, forward.content.source);

  Status status;
  status.counters.assign(kCountersMax, {std::string(kNameMax, 'n'), 1});
  status.network.reason = std::string(kSentenceMax, 'r');
  status.network.remedy = std::string(kSentenceMax, 'r');
  EXPECT_EQ(round_trip(status).counters.size(), kCountersMax);
}

TEST(Messages, ATextThatIsTooLongIsCut) {
  EXPECT_EQ(round_trip(Refused{.sentence = std::string(5000, 'x')}).sentence.size(), kSentenceMax);
  EXPECT_EQ(round_trip(Refused{.sentence = std::string("ab\0cd", 5)}).sentence, "ab");
}

TEST(Messages, EveryShortenedOrLengthenedBodyIsRefused) {
  auto datagram = encode(full_hello(), 1);
  const Octets body = Octets(datagram).subspan(sizeof(Header));
  for (std::size_t size = 0; size < body.size(); ++size) {
    EXPECT_FALSE(decode<Hello>(body.first(size)).has_value()) << size;
  }
  datagram.push_back(0);
  EXPECT_FALSE(decode<Hello>(Octets(datagram).subspan(sizeof(Header))).has_value());
}

TEST(Messages, MutatedBodiesNeverYieldValuesOutOfBounds) {
  Prng prng(4);
  const auto original = encode(full_hello(), 1);
  for (int i = 0; i < 100'000; ++i) {
    auto body = std::vector<std::uint8_t>(original.begin() + sizeof(Header), original.end());
    for (std::uint64_t n = prng.between(1, 4); n > 0; --n) {
      body[prng.below(body.size())] = static_cast<std::uint8_t>(prng.next());
    }
    if (const auto hello = decode<Hello>(body)) {
      EXPECT_LE(hello->role, Role::kKeeper);
      EXPECT_LE(hello->program.size(), kNameMax);
      EXPECT_LE(hello->claims.size(), kSlotsOfProgramMax);
      for (const SlotClaim& claim : hello->claims) EXPECT_LT(claim.slot, kSlotCount);
    }
  }
}

TEST(Messages, TextsHaveNoControlCharacters) {
  for (const auto& [sent, seen] : {std::pair<std::string, std::string>{"ib_write_bw", "ib_write_bw"},
                                   {"\x1b[2J\n\r\t\x7f", "?[2J????"},
                                   {"\xc2\x9b"
                                    "2J",
                                    "??2J"},
                                   {"\x9b"
                                    "2J",
                                    "?2J"},
                                   {"5 \xc2\xb5s \xe2\x80\xa6", "5 \xc2\xb5s \xe2\x80\xa6"},
                                   {"\xe2\x80", "??"}}) {
    const auto body = encode(Refused{.sentence = sent}, 0);
    const auto read = decode<Refused>(Octets(body).subspan(sizeof(Header)));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->sentence, seen);
  }
}

TEST(Messages, TheFrozenPartIsFrozen) {
  const auto datagram = encode(Refused{.sentence = "no"}, 0x01020304);
  const std::uint8_t expected_little_endian[] = {
      0x43, 0x44, 0x52, 0x52, kProtocolVersion, 0, 3, 0, 4, 3, 2, 1, 4, 0, 0, 0, 2, 0, 'n', 'o'};
  ASSERT_EQ(datagram.size(), sizeof expected_little_endian);
  EXPECT_EQ(std::memcmp(datagram.data(), expected_little_endian, datagram.size()), 0);
  EXPECT_EQ(static_cast<int>(MessageType::kHello), 1);
}

struct Pair {
  OwnedFd a, b;
  Pair() {
    int ends[2];
    EXPECT_EQ(raw::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    a = OwnedFd(ends[0]);
    b = OwnedFd(ends[1]);
  }
};

TEST(MessageSocket, CarriesDescriptors) {
  Pair pair;
  const OwnedFd file(raw::memfd_create("x", 0));
  ASSERT_EQ(raw::write(file.get(), "hello", 5), 5);
  const int fds[] = {file.get(), file.get()};
  ASSERT_EQ(send_datagram(pair.a.get(), encode(Done{}, 3), fds), SendOutcome::kSent);
  Received received;
  ASSERT_EQ(receive_message(pair.b.get(), received), ReceiveOutcome::kMessage);
  ASSERT_EQ(received.fds.size(), 2u);
  EXPECT_TRUE(received.as<Done>().has_value());
  EXPECT_FALSE(received.as<Failed>().has_value());
  char text[6] = {};
  EXPECT_EQ(::pread(received.fds[1].get(), text, 5, 0), 5);
  EXPECT_STREQ(text, "hello");
  EXPECT_NE(raw::fcntl(received.fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(receive_message(pair.b.get(), received), ReceiveOutcome::kNothing);
  pair.a.reset();
  EXPECT_EQ(receive_message(pair.b.get(), received), ReceiveOutcome::kGone);
}

TEST(MessageSocket, AMessageWithTooManyDescriptorsLeaksNone) {
  Pair pair;
  const OwnedFd file(raw::memfd_create("x", 0));
  alignas(cmsghdr) char control[CMSG_SPACE(20 * sizeof(int))] = {};
  auto datagram = encode(Done{}, 3);
  iovec content{datagram.data(), datagram.size()};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(20 * sizeof(int));
  for (int i = 0; i < 20; ++i) {
    const int fd = file.get();
    std::memcpy(CMSG_DATA(rights) + static_cast<std::size_t>(i) * sizeof fd, &fd, sizeof fd);
  }
  const int next_before = file.duplicate().get();
  ASSERT_GT(raw::sendmsg(pair.a.get(), &message, 0), 0);
  Received received;
  EXPECT_EQ(receive_message(pair.b.get(), received), ReceiveOutcome::kMalformed);
  // All of them are the caller's: the kernel would close those that find no room, here and now.
  EXPECT_EQ(received.fds.size(), 20u);
  received.fds.clear();
  EXPECT_EQ(file.duplicate().get(), next_before);
}

TEST(MessageSocket, GarbageIsMalformed) {
  Pair pair;
  Prng prng(1);
  Received received;
  for (int i = 0; i < 1000; ++i) {
    std::vector<std::uint8_t> octets(prng.between(1, 64));
    for (auto& octet : octets) octet = static_cast<std::uint8_t>(prng.next());
    ASSERT_GT(raw::sendto(pair.a.get(), octets.data(), octets.size(), 0, nullptr, 0), 0);
    EXPECT_EQ(receive_message(pair.b.get(), received), ReceiveOutcome::kMalformed);
  }
  std::vector<std::uint8_t> huge(kMessageMax + 1);
  ASSERT_GT(raw::sendto(pair.a.get(), huge.data(), huge.size(), 0, nullptr, 0), 0);
  EXPECT_EQ(receive_message(pair.b.get(), received), ReceiveOutcome::kMalformed);
}

TEST(Names, HaveOneHolder) {
  const std::string name = "rrdma.test." + std::to_string(raw::getpid());
  EXPECT_FALSE(connect_to(name).valid());
  EXPECT_EQ(errno, ECONNREFUSED);
  OwnedFd first = listen_on(name);
  ASSERT_TRUE(first.valid());
  EXPECT_FALSE(listen_on(name).valid());
  EXPECT_EQ(errno, EADDRINUSE);
  const OwnedFd client = connect_to(name);
  ASSERT_TRUE(client.valid());
  EXPECT_EQ(peer_identity(client.get()).pid, raw::getpid());
  EXPECT_TRUE(is_own_user(peer_identity(client.get())));
  first.reset();
  EXPECT_TRUE(listen_on(name).valid());
}

// Runs the body in a process to which these folders are empty. Needs root.
void without(std::initializer_list<const char*> folders, const std::function<void()>& body) {
  constexpr int kSkipped = 77;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      ::_exit(kSkipped);
    for (const char* folder : folders) {
      if (::mount("none", folder, "tmpfs", 0, nullptr) != 0) ::_exit(kSkipped);
    }
    body();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kSkipped) GTEST_SKIP() << "needs root";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Names, AFolderOfAnotherUserIsNotUsed) {
  without({"/tmp", "/run"}, [] {
    constexpr uid_t kAlice = 54321, kMallory = 54322;
    const std::string folder = "/tmp/rrdma-" + std::to_string(kAlice);
    const auto is_used = [&](uid_t owner, mode_t mode, const std::string& made) {
      EXPECT_EQ(::mkdir(made.c_str(), 0700), 0);
      EXPECT_EQ(::chmod(made.c_str(), mode), 0);
      EXPECT_EQ(::chown(made.c_str(), owner, owner), 0);
      (void)::symlink(made.c_str(), folder.c_str());
      const bool has_path = !user_paths(kAlice).empty();
      (void)::unlink(folder.c_str());
      EXPECT_EQ(::rmdir(made.c_str()), 0);
      return has_path;
    };
    EXPECT_TRUE(is_used(kAlice, 0700, folder));
    EXPECT_FALSE(is_used(kMallory, 0700, folder));
    EXPECT_FALSE(is_used(kAlice, 0770, folder));
    EXPECT_FALSE(is_used(kAlice, 0700, "/tmp/behind-a-link"));
  });
}

// A process without /proc knows nothing of namespaces: it charges a stranger as it does all unknown users.
TEST(Identity, OfAStrangerIsUnknownWithoutProc) {
  without({"/proc"}, [] {
    constexpr uid_t kStranger = 54321;
    EXPECT_EQ(account_of({.pid = 1, .uid = kStranger, .namespaces = {}}), kUnknownAccount);
    EXPECT_EQ(account_of({.pid = raw::getpid(), .uid = ::geteuid(), .namespaces = {}}), ::geteuid());
  });
}

// Returns when nobody can write into the pipe any more.
void wait_for_end(const OwnedFd& reader, OwnedFd& writer) {
  writer.reset();
  char end = 0;
  (void)!raw::read(reader.get(), &end, 1);
}

// A process with a number that has been used before; it waits for the end of the pipe. 0: not allowed.
pid_t start_with_number(pid_t number, const OwnedFd& reader, OwnedFd& writer) {
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  arguments.set_tid = reinterpret_cast<std::uint64_t>(&number);
  arguments.set_tid_size = 1;
  const long started = ::syscall(SYS_clone3, &arguments, sizeof arguments);
  if (started == 0) {
    wait_for_end(reader, writer);
    ::_exit(0);
  }
  return started < 0 ? 0 : static_cast<pid_t>(started);
}

// A connection may outlive the process that made it. The number of that process may then be another's, in
// other namespaces.
TEST(Identity, OfAProcessThatHasEndedIsUnknown) {
  const std::string name = "rrdma.test." + std::to_string(raw::getpid());
  const OwnedFd listener = listen_on(name);
  ASSERT_TRUE(listener.valid());
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const OwnedFd reader(ends[0]);
  OwnedFd writer(ends[1]);
  const pid_t ended = ::fork();
  if (ended == 0) {
    const OwnedFd connection = connect_to(name);
    if (::fork() == 0) wait_for_end(reader, writer);
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(ended, nullptr, 0), ended);
  const OwnedFd accepted(raw::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(accepted.valid());
  int process = -1;
  socklen_t size = sizeof process;
  const bool can_tell =
      raw::getsockopt(accepted.get(), SOL_SOCKET, SO_PEERPIDFD, &process, &size) == 0 || errno != ENOPROTOOPT;
  const OwnedFd unused(process);
  const pid_t other = can_tell ? start_with_number(ended, reader, writer) : 0;
  if (other == 0) GTEST_SKIP() << "needs root and Linux 6.5";
  const PeerIdentity peer = peer_identity(accepted.get());
  EXPECT_TRUE(namespaces_of(other).known());
  EXPECT_FALSE(peer.namespaces.known());
  EXPECT_EQ(peer.pid, 0);
  EXPECT_TRUE(peer.has_ended);
  EXPECT_EQ(peer.uid, ::geteuid());
  writer.reset();
  EXPECT_EQ(::waitpid(other, nullptr, 0), other);
}

TEST(ProcessPage, ShowsCountersAndQueuePairs) {
  auto page = ProcessPage::create();
  ASSERT_TRUE(page.ok()) << page.error().sentence;
  page->counter("packets").fetch_add(41);
  page->counter("packets").fetch_add(1);
  page->counter("octets").fetch_add(7);
  page->next_index(3).store(1234);
  QpRow* first = page->create_qp();
  QpRow* second = page->create_qp();
  ASSERT_NE(first, nullptr);
  ProcessPage::update_qp(*first, {.qpn = 0x30001, .peer_qpn = 5, .state = 3, .type = 2});
  ProcessPage::update_qp(*second, {.qpn = 0x30002});
  ProcessPage::count(*second, QpCounter::kTimeouts, 3);
  ProcessPage::set_levels(*first, {.send_queued = 9});
  ProcessPage::set_levels(*second, {.send_queued = 4, .send_capacity = 64, .window = 32, .receive_cq = 2});
  page->destroy_qp(*first);

  const auto view = ProcessPageView::open(page->fd());
  ASSERT_TRUE(view.ok()) << view.error().sentence;
  const auto counters = view->counters();
  ASSERT_EQ(counters.size(), 2u);
  EXPECT_EQ(counters[0].name, "packets");
  EXPECT_EQ(counters[0].value, 42u);
  EXPECT_EQ(view->next_index(3), std::optional<std::uint16_t>(1234));
  EXPECT_FALSE(view->next_index(4).has_value());
  const auto qps = view->queue_pairs();
  ASSERT_EQ(qps.size(), 1u);
  EXPECT_EQ(qps[0].fields.qpn, 0x30002u);
  EXPECT_EQ(qps[0].counters[static_cast<std::size_t>(QpCounter::kTimeouts)], 3u);
  EXPECT_EQ(qps[0].levels.send_queued, 4u);
  EXPECT_EQ(qps[0].levels.send_capacity, 64u);
  EXPECT_EQ(qps[0].levels.window, 32u);
  EXPECT_EQ(qps[0].levels.receive_cq, 2u);
  EXPECT_EQ(page->create_qp(), first);
  EXPECT_EQ(view->queue_pairs().front().levels.send_queued, 0u) << "what an earlier queue pair held";
}

TEST(ProcessPage, TellsWhatEachDeviceHasOfACounter) {
  auto page = ProcessPage::create();
  ASSERT_TRUE(page.ok());
  auto& sent = page->counter("octets_sent");
  auto& received = page->counter("octets_received");
  EXPECT_EQ(page->add_device("rrdma0"), 1u);
  EXPECT_EQ(page->add_device("rrdma1"), 2u);
  EXPECT_EQ(page->add_device("rrdma0"), 1u) << "known by its name";
  for (auto* counter : {&sent, page->part_of(sent, 2)}) counter->fetch_add(7);
  for (auto* counter : {&received, page->part_of(received, 1)}) counter->fetch_add(5);
  (void)page->counter("memory_keys");  // has no parts

  const auto view = ProcessPageView::open(page->fd());
  ASSERT_TRUE(view.ok());
  const auto devices = view->devices();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[1].name, "rrdma1");
  ASSERT_EQ(devices[1].counters.size(), 2u);
  EXPECT_EQ(devices[1].counters[0].name, "octets_sent");
  EXPECT_EQ(devices[1].counters[0].value, 7u);
  EXPECT_EQ(devices[1].counters[1].value, 0u);
  EXPECT_EQ(devices[0].counters[1].value, 5u);
}

TEST(ProcessPage, HasSoManyDevicesAndNoMore) {
  auto page = ProcessPage::create();
  ASSERT_TRUE(page.ok());
  for (std::uint32_t i = 0; i < kPageDeviceCapacity; ++i)
    EXPECT_EQ(page->add_device("rrdma" + std::to_string(i)), i + 1);
  EXPECT_EQ(page->add_device("another"), 0u);
  for (std::uint32_t i = 0; i < kPagePartCapacity; ++i) {
    auto& counter = page->counter("counter" + std::to_string(i));
    ASSERT_NE(page->part_of(counter, kPageDeviceCapacity), nullptr);
  }
  EXPECT_EQ(page->part_of(page->counter("one too many"), 1), nullptr);
  const auto view = ProcessPageView::open(page->fd());
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->devices().size(), kPageDeviceCapacity);
  EXPECT_EQ(view->devices().back().counters.size(), kPagePartCapacity);
}

TEST(ProcessPage, KeepsWhatWasAcknowledgedLast) {
  auto page = ProcessPage::create();
  ASSERT_TRUE(page.ok());
  QpRow* destroyed = page->create_qp();
  QpRow* silent = page->create_qp();
  QpRow* old = page->create_qp();
  ProcessPage::update_qp(*destroyed, {.qpn = 0x30001, .peer_qpn = 5});
  ProcessPage::update_qp(*silent, {.qpn = 0x30002});
  ProcessPage::update_qp(*old, {.qpn = 0x30003});
  const Instant now{seconds(1000).ns};
  wire::LastAnswer::write(destroyed->last_answer, wire::Psn(0xfffffe), 0xabcdef, now - seconds(1));
  wire::LastAnswer::write(old->last_answer, wire::Psn(1), 1, now - seconds(3));
  page->destroy_qp(*destroyed);

  const auto view = ProcessPageView::open(page->fd());
  ASSERT_TRUE(view.ok());
  const auto answers = view->last_answers(now, seconds(2), 10);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].fields.peer_qpn, 5u);
  EXPECT_EQ(answers[0].answer.psn, wire::Psn(0xfffffe));
  EXPECT_EQ(answers[0].answer.msn, 0xabcdefu);
  EXPECT_EQ(view->last_answers(now, seconds(4), 10).size(), 2u);
  EXPECT_EQ(view->last_answers(now, seconds(4), 1).size(), 1u);
  // The row belongs to another QP now.
  ASSERT_EQ(page->create_qp(), destroyed);
  EXPECT_TRUE(view->last_answers(now, seconds(2), 10).empty());
}

TEST(ProcessPage, CannotBeWrittenOrShrunkByItsReaders) {
  auto page = ProcessPage::create();
  ASSERT_TRUE(page.ok());
  EXPECT_LT(raw::ftruncate(page->fd(), 0), 0);
  EXPECT_LT(raw::write(page->fd(), "x", 1), 0);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, page->fd(), 0), MAP_FAILED);
}

TEST(ProcessPage, AForeignFileIsNotRead) {
  const OwnedFd plain(raw::memfd_create("x", MFD_CLOEXEC));
  EXPECT_FALSE(ProcessPageView::open(plain.get()).ok());
  const OwnedFd sealed(raw::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(raw::fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_FALSE(ProcessPageView::open(sealed.get()).ok());
}

TEST(ProcessPage, AReaderNeverSeesHalfAnUpdate) {
  auto page = ProcessPage::create();
  ASSERT_TRUE(page.ok());
  QpRow* row = page->create_qp();
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (std::uint32_t i = 1; i <= 1'000'000; ++i) {
      ProcessPage::update_qp(*row, {.qpn = i, .peer_qpn = i, .device = i});
    }
    done = true;
  });
  const auto view = ProcessPageView::open(page->fd());
  ASSERT_TRUE(view.ok());
  while (!done.load()) {
    for (const QpSnapshot& qp : view->queue_pairs()) {
      ASSERT_EQ(qp.fields.qpn, qp.fields.peer_qpn);
      ASSERT_EQ(qp.fields.qpn, qp.fields.device);
    }
  }
  writer.join();
}

}  // namespace rrdma::control::control_test
