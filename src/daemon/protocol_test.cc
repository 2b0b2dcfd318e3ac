// Messages from programs to the daemon, and through it to each other; also messages of another release,
// malformed messages, and floods.
#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <thread>

#include "base/prng.h"
#include "control/capture_messages.h"
#include "control/cm_messages.h"
#include "control/message_socket.h"
#include "control/names.h"
#include "daemon/slots/slot_socket.h"
#include "daemon/test_surroundings.h"
#include "host/clock.h"

namespace rrdma::daemon::protocol_test {

pid_t daemon_of(control::DaemonClient& client) { return static_cast<pid_t>(client.welcome().daemon_pid); }

std::size_t descriptors_of(pid_t pid) {
  std::size_t count = 0;
  DIR* directory = ::opendir(("/proc/" + std::to_string(pid) + "/fd").c_str());
  while (directory != nullptr && ::readdir(directory) != nullptr) ++count;
  if (directory != nullptr) ::closedir(directory);
  return count;
}

control::Received receive(int socket) {
  control::Received message;
  EXPECT_TRUE(eventually(
      [&] { return control::receive_message(socket, message) != control::ReceiveOutcome::kNothing; }));
  return message;
}

// The backlog of the daemon may be full for a moment.
OwnedFd connect_raw() {
  OwnedFd socket;
  EXPECT_TRUE(eventually([&] {
    socket = control::connect_to(control::user_name(::geteuid()));
    return socket.valid();
  }));
  return socket;
}

TEST(Versions, ADaemonTellsAProgramOfAnotherRelease) {
  in_own_network([] {
    const auto client = open_client();
    const OwnedFd other = connect_raw();
    auto datagram = control::encode(control::Hello{}, 5);
    const std::uint16_t version = 77;
    std::memcpy(datagram.data() + offsetof(control::Header, version), &version, sizeof version);
    datagram.resize(datagram.size() - 3);  // another release has other fields
    const auto size = static_cast<std::uint32_t>(datagram.size() - sizeof(control::Header));
    std::memcpy(datagram.data() + offsetof(control::Header, body_size), &size, sizeof size);
    ASSERT_EQ(control::send_datagram(other.get(), datagram), control::SendOutcome::kSent);
    const auto reply = receive(other.get());
    const auto refused = reply.as<control::Refused>();
    ASSERT_TRUE(refused.has_value());
    EXPECT_EQ(reply.header.serial, 5u);
    EXPECT_NE(refused->sentence.find("version " + std::to_string(control::kProtocolVersion)),
              std::string::npos)
        << refused->sentence;
    EXPECT_NE(refused->sentence.find("version 77"), std::string::npos);
    EXPECT_TRUE(client->status().ok());
  });
}

TEST(Versions, AProgramIsToldByADaemonOfAnotherRelease) {
  in_own_network([] {
    const OwnedFd listener = control::listen_on(control::user_name(::geteuid()));
    ASSERT_TRUE(listener.valid());
    Program newer([&] {
      OwnedFd socket;
      ASSERT_TRUE(eventually([&] {
        socket = OwnedFd(raw::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        return socket.valid();
      }));
      (void)receive(socket.get());
      auto datagram = control::encode(control::Refused{.sentence = "I speak version 9, you do not."}, 1);
      const std::uint16_t version = 9;
      std::memcpy(datagram.data() + offsetof(control::Header, version), &version, sizeof version);
      EXPECT_EQ(control::send_datagram(socket.get(), datagram), control::SendOutcome::kSent);
      ::pause();
    });
    const auto client = control::DaemonClient::connect_or_start({});
    ASSERT_FALSE(client.ok());
    EXPECT_EQ(client.error().sentence, "I speak version 9, you do not.");
  });
}

TEST(Peers, FindEachOtherAndPassDescriptors) {
  in_own_network([] {
    const auto client = open_client();
    auto from = client->request_slot();
    ASSERT_TRUE(from.ok());
    Baton slot_of_peer, done;
    Program peer([&] {
      control::DaemonSettings settings;
      settings.links = control::kLinkShm;
      const auto own = open_client(settings);
      auto slot = own->request_slot();
      ASSERT_TRUE(slot.ok());
      slot_of_peer.pass(slot->slot);
      slot_of_peer.pass(own->token());
      RecordedEvents events;
      ASSERT_TRUE(handle_until(*own, events, [&] { return events.offers.size() == 2; }));
      EXPECT_EQ(events.offers[0].offer.from_slot, from->slot);
      EXPECT_EQ(events.offers[0].offer.to_slot, slot->slot);
      EXPECT_EQ(events.offers[0].offer.pid, static_cast<std::uint32_t>(::getppid()));
      EXPECT_EQ(events.offers[0].offer.uid, ::geteuid());
      EXPECT_EQ(events.offers[0].offer.opaque, (std::vector<std::uint8_t>{1, 2, 3}));
      ASSERT_EQ(events.offers[0].fds.size(), 2u);
      EXPECT_EQ(events.offers[1].offer.opaque.size(), control::kOpaqueMax);
      char text[4] = {};
      EXPECT_EQ(::pread(events.offers[0].fds[0].get(), text, 3, 0), 3);
      EXPECT_STREQ(text, "shm");
      done.take();
    });
    const auto to = static_cast<control::Slot>(slot_of_peer.take());
    const std::uint64_t token = slot_of_peer.take();
    const auto owner = client->look_up_slot(to);
    ASSERT_TRUE(owner.ok());
    EXPECT_TRUE(owner->found && owner->same_user);
    EXPECT_EQ(owner->pid, static_cast<std::uint32_t>(peer.pid()));
    EXPECT_EQ(owner->links, control::kLinkShm);
    EXPECT_EQ(owner->token, token);

    const OwnedFd memory(raw::memfd_create("x", MFD_CLOEXEC));
    ASSERT_EQ(raw::write(memory.get(), "shm", 3), 3);
    const int fds[] = {memory.get(), memory.get()};
    const std::uint8_t opaque[] = {1, 2, 3};
    const auto offered = client->offer_channel(from->slot, to, opaque, fds);
    EXPECT_TRUE(offered.ok()) << offered.error().sentence;
    const std::vector<std::uint8_t> largest(control::kOpaqueMax, 9);
    EXPECT_TRUE(client->offer_channel(from->slot, to, largest, {}).ok());

    EXPECT_EQ(client->offer_channel(from->slot, 200, {}, {}).error().error, ENOENT);
    EXPECT_EQ(client->offer_channel(to, from->slot, {}, {}).error().error, EPERM);
    EXPECT_FALSE(client->look_up_slot(200)->found);
    EXPECT_FALSE(client->look_up_slot(0)->found);

    done.pass();
    RecordedEvents events;
    EXPECT_TRUE(handle_until(*client, events, [&] { return !events.gone.empty(); }));
    EXPECT_EQ(events.gone, std::vector<control::Slot>{to});
    EXPECT_TRUE(peer.succeeded());
  });
}

TEST(Peers, PassOnWhatWasMergedIntoTheWrongSlot) {
  in_own_network([] {
    const auto client = open_client();
    const auto other = open_client();
    auto slot = other->request_slot();
    ASSERT_TRUE(slot.ok());
    control::FrameFields frame;
    frame.source = wire::gid_of_ipv4({10, 0, 0, 1});
    frame.source_port = 0xc001;
    frame.frame.assign(4096 + 60, 0x5a);
    store_be24(frame.frame.data() + 5, control::qpns_of(slot->slot).first);
    client->forward_frame(frame);
    RecordedEvents events;
    ASSERT_TRUE(handle_until(*other, events, [&] { return !events.frames.empty(); }));
    EXPECT_EQ(events.frames[0].frame, frame.frame);
    EXPECT_EQ(events.frames[0].source, frame.source);
    EXPECT_EQ(events.frames[0].source_port, 0xc001);
  });
}

// A program that reads nothing (stopped in a debugger) does not block others.
TEST(Peers, AStoppedProgramHoldsUpNobody) {
  in_own_network([] {
    const auto client = open_client();
    auto from = client->request_slot();
    ASSERT_TRUE(from.ok());
    Baton ready;
    Program stopped([&] {
      const auto own = open_client();
      auto slot = own->request_slot();
      ASSERT_TRUE(slot.ok());
      ready.pass(slot->slot);
      ::pause();
    });
    const auto to = static_cast<std::uint8_t>(ready.take());
    const OwnedFd memory(raw::memfd_create("x", MFD_CLOEXEC));
    const int fds[] = {memory.get()};
    control::FrameFields frame;
    frame.frame.assign(8000, 1);
    frame.frame[5] = to;
    int refused = 0;
    for (int i = 0; i < 2000; ++i) {
      client->forward_frame(frame);
      const auto offer = client->offer_channel(from->slot, to, {}, fds);
      if (!offer.ok()) {
        EXPECT_EQ(offer.error().error, EAGAIN);
        ++refused;
      }
    }
    EXPECT_GT(refused, 1000);
    EXPECT_TRUE(client->status().ok());
    EXPECT_LT(descriptors_of(daemon_of(*client)), 300u);
  });
}

TEST(Registry, ShowsProgramsWithTheirPages) {
  in_own_network([] {
    control::DaemonSettings settings;
    settings.program = "ib_write_bw";
    settings.devices = "rrdma0 on lo";
    const auto client = open_client(settings);
    auto slot = client->request_slot();
    ASSERT_TRUE(slot.ok());
    control::QpRow* row = client->page().create_qp();
    control::ProcessPage::update_qp(*row, {.qpn = client->next_qpn(slot->slot).value, .state = 3});
    ASSERT_TRUE(client->update_process(control::kLinkUdp, "rrdma0 on eth7").ok());

    control::DaemonSettings tool;
    tool.role = control::Role::kTool;
    const auto asker = open_client(tool);
    const auto listed = asker->list_processes();
    ASSERT_TRUE(listed.ok()) << listed.error().sentence;
    ASSERT_EQ(listed->size(), 1u);
    const auto& entry = (*listed)[0].entry;
    EXPECT_EQ(entry.pid, static_cast<std::uint32_t>(::getpid()));
    EXPECT_EQ(entry.program, "ib_write_bw");
    EXPECT_EQ(entry.devices, "rrdma0 on eth7");
    EXPECT_EQ(entry.links, control::kLinkUdp);
    EXPECT_EQ(entry.slots, std::vector<control::Slot>{slot->slot});
    const auto view = control::ProcessPageView::open((*listed)[0].page.get());
    ASSERT_TRUE(view.ok());
    ASSERT_EQ(view->queue_pairs().size(), 1u);
    EXPECT_EQ(view->queue_pairs()[0].fields.qpn >> 16, slot->slot);
    EXPECT_FALSE(asker->request_slot().ok()) << "a tool holds no slot";
    const auto status = asker->status();
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(status->clients, 2);
    EXPECT_EQ(status->slots_held, 1);
    EXPECT_FALSE(status->is_system);
  });
}

// Adds to a counter of a device, as a publisher does.
void carry(control::DaemonClient& program, const char* device, std::uint64_t octets) {
  control::ProcessPage& page = program.page();
  auto& counter = page.counter("octets_sent");
  page.part_of(counter, page.add_device(device))->fetch_add(octets);
}

std::map<std::string, std::uint64_t> carried(control::DaemonClient& asker) {
  const auto listed = asker.list_devices();
  std::map<std::string, std::uint64_t> sums;
  if (!listed) return sums;
  for (const control::DeviceEntry& device : *listed) sums[device.name] = device.counters.at(0).value;
  return sums;
}

TEST(DeviceTotals, OnlyGrow) {
  in_own_network([] {
    control::DaemonSettings tool;
    tool.role = control::Role::kTool;
    auto first = open_client();
    const auto asker = open_client(tool);
    EXPECT_TRUE(carried(*asker).empty());
    carry(*first, "rrdma0", 100);
    carry(*first, "rrdma1", 7);
    const auto second = open_client();
    carry(*second, "rrdma0", 20);
    using Sums = std::map<std::string, std::uint64_t>;
    EXPECT_EQ(carried(*asker), (Sums{{"rrdma0", 120}, {"rrdma1", 7}}));
    const auto programs = [&] { return asker->list_devices()->at(0).programs; };
    EXPECT_EQ(programs(), 2u);
    first.reset();
    EXPECT_TRUE(eventually([&] { return programs() == 1; }));
    EXPECT_EQ(carried(*asker), (Sums{{"rrdma0", 120}, {"rrdma1", 7}})) << "what it carried stays";
    carry(*second, "rrdma1", 3);
    EXPECT_EQ(carried(*asker)["rrdma1"], 10u);
  });
}

TEST(DeviceTotals, OfManyThatAreGone) {
  in_own_network([] {
    control::DaemonSettings tool;
    tool.role = control::Role::kTool;
    auto stays = open_client();
    const auto asker = open_client(tool);
    constexpr int kPrograms = 40;  // more than are kept separately
    for (int i = 0; i < kPrograms; ++i) carry(*open_client(), "rrdma0", 1);
    EXPECT_TRUE(eventually([&] { return carried(*asker)["rrdma0"] == kPrograms; }));
    for (int i = 0; i < 40; ++i) carry(*open_client(), ("device" + std::to_string(i)).c_str(), 1);
    EXPECT_TRUE(eventually([&] { return asker->status()->clients == 2; }));
    EXPECT_LE(carried(*asker).size(), control::kPageDeviceCapacity) << "names are a stranger's";
    EXPECT_EQ(carried(*asker)["rrdma0"], static_cast<std::uint64_t>(kPrograms));
  });
}

// While a request waits, event_fd() must not make the background thread spin.
TEST(Client, WaitsWithoutSpinning) {
  in_own_network([] {
    const auto client = open_client({.patience = seconds(2)});
    ::kill(daemon_of(*client), SIGSTOP);
    int wakeups = 0;
    std::thread background([&] {
      RecordedEvents events;
      const Instant end = host::now() + milliseconds(450);
      while (host::now() < end) {
        pollfd wait{.fd = client->event_fd(), .events = POLLIN, .revents = 0};
        const timespec step{.tv_sec = 0, .tv_nsec = 50'000'000};
        if (raw::ppoll(&wait, 1, &step) > 0) {
          ++wakeups;
          client->handle_events(events);
        }
      }
    });
    EXPECT_FALSE(client->request_slot().ok());
    background.join();
    EXPECT_LT(wakeups, 10);
    ::kill(daemon_of(*client), SIGCONT);
  });
}

std::vector<std::uint8_t> random_message(Prng& prng) {
  std::vector<std::uint8_t> datagram;
  switch (prng.below(6)) {
    case 0:
      datagram = control::encode(
          control::Hello{.program = "x", .claims = {{.slot = 3, .next_index = 1, .families = 3}}}, 1);
      break;
    case 1:
      datagram = control::encode(control::OfferChannel{.from_slot = 1, .to_slot = 1, .opaque = {1, 2, 3}}, 2);
      break;
    case 2:
      datagram = control::encode(
          control::JoinGroup{.slot = 1, .interface_index = 1, .group = wire::gid_of_ipv4({239, 0, 0, 1})}, 3);
      break;
    case 3:
      datagram = control::encode(
          control::ForwardFrame{.content = {.frame = std::vector<std::uint8_t>(prng.below(64), 1)}}, 0);
      break;
    case 4: datagram = control::encode(control::ReleaseSlot{.slot = 1, .next_index = 2}, 4); break;
    default: datagram = control::encode(control::UpdateProcess{.links = 1, .devices = "y"}, 5);
  }
  const std::uint64_t type = prng.below(4) == 0 ? prng.below(0x120) : 0;
  if (type != 0)
    store_native(datagram.data() + offsetof(control::Header, type), static_cast<std::uint16_t>(type));
  for (std::uint64_t n = prng.below(4); n > 0; --n) {
    // Mostly behind the header; otherwise nothing would get past it.
    const std::uint64_t first =
        prng.below(8) == 0 ? 0 : std::min<std::size_t>(sizeof(control::Header), datagram.size() - 1);
    datagram[prng.between(first, datagram.size() - 1)] = static_cast<std::uint8_t>(prng.next());
  }
  if (prng.below(8) == 0) datagram.resize(prng.between(1, datagram.size()));
  return datagram;
}

TEST(Hostile, MalformedMessagesHurtNobody) {
  in_own_network([] {
    const auto client = open_client();
    auto slot = client->request_slot();
    ASSERT_TRUE(slot.ok());
    ASSERT_TRUE(client->status().ok());  // by now the daemon has closed its copies of the slot's sockets
    const std::size_t descriptors = descriptors_of(daemon_of(*client));
    const std::uint64_t seed = 20240607;
    Prng prng(seed);
    const OwnedFd memory(raw::memfd_create("x", MFD_CLOEXEC));
    OwnedFd hostile;
    for (int i = 0; i < 6'000; ++i) {
      if (!hostile || prng.below(50) == 0) {
        hostile = connect_raw();
        if (prng.below(4) != 0)
          (void)control::send_datagram(hostile.get(), control::encode(control::Hello{}, 1));
      }
      std::vector<int> fds(prng.below(8) == 0 ? prng.below(control::kFdsMax + 1) : 0, memory.get());
      const auto datagram = random_message(prng);
      auto outcome = control::SendOutcome::kWouldBlock;
      control::Received answer;
      // It reads its answers; otherwise the daemon would stop reading from it.
      EXPECT_TRUE(eventually([&] {
        while (control::receive_message(hostile.get(), answer) == control::ReceiveOutcome::kMessage) {
        }
        outcome = control::send_datagram(hostile.get(), datagram, fds);
        return outcome != control::SendOutcome::kWouldBlock;
      }));
      pollfd answered{.fd = hostile.get(), .events = POLLIN, .revents = 0};
      const timespec moment{.tv_sec = 0, .tv_nsec = 200'000};
      (void)raw::ppoll(&answered, 1, &moment);
      if (outcome == control::SendOutcome::kGone) hostile.reset();
    }
    hostile.reset();
    const auto status = client->status();
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status.error().sentence;
    EXPECT_EQ(status->slots_held, 1);
    EXPECT_TRUE(eventually([&] { return client->status()->clients == 1; }));
    // The count above may include a descriptor that was about to be closed.
    EXPECT_TRUE(eventually([&] { return descriptors_of(daemon_of(*client)) <= descriptors; }));
    std::uint64_t malformed = 0;
    const auto later = client->status();
    for (const auto& counter : later->counters) {
      if (counter.name == "messages.malformed") malformed = counter.value;
    }
    EXPECT_GT(malformed, 300u);
    send_to_qpn(AF_INET, control::qpns_of(slot->slot).first, 3);
    EXPECT_EQ(marks_of(slot->sockets.v4), std::vector<std::uint8_t>{3});
  });
}

TEST(Hostile, WhoNeverGreetsAndWhoNeverReadsIsBounded) {
  in_own_network([] {
    const auto client = open_client();
    std::vector<OwnedFd> silent;
    for (int i = 0; i < 1000; ++i) silent.push_back(control::connect_to(control::user_name(::geteuid())));
    EXPECT_TRUE(client->status().ok());
    silent.clear();
    const OwnedFd deaf = connect_raw();
    EXPECT_EQ(control::send_datagram(deaf.get(), control::encode(control::Hello{}, 1)),
              control::SendOutcome::kSent);
    for (int i = 0; i < 10'000; ++i) {
      (void)control::send_datagram(deaf.get(), control::encode(control::QueryStatus{}, 2));
    }
    EXPECT_TRUE(client->status().ok());
    EXPECT_TRUE(eventually([&] { return client->request_slot().ok(); }));
  });
}

// ---- while a crowd is told of something ----

// More than the daemon tells in one turn of its loop.
constexpr std::size_t kCrowd = 200;

OwnedFd greeted(const control::Hello& hello) {
  OwnedFd socket = connect_raw();
  EXPECT_EQ(control::send_datagram(socket.get(), control::encode(hello, 1)), control::SendOutcome::kSent);
  EXPECT_TRUE(receive(socket.get()).as<control::Welcome>());
  return socket;
}

std::vector<OwnedFd> crowd() {
  std::vector<OwnedFd> all;
  for (std::size_t i = 0; i < kCrowd; ++i) all.push_back(greeted({}));
  return all;
}

template <typename Message>
void ask(const OwnedFd& socket, const Message& message, std::uint32_t serial, std::span<const int> fds = {}) {
  EXPECT_EQ(control::send_datagram(socket.get(), control::encode(message, serial), fds),
            control::SendOutcome::kSent);
}

// A program whose slot a crowd watches.
struct WatchedProgram {
  OwnedFd socket = greeted({});
  control::Slot slot = 0;
  std::vector<OwnedFd> watchers = crowd();

  WatchedProgram() {
    ask(socket, control::RequestSlot{}, 2);
    const auto granted = receive(socket.get()).as<control::SlotGranted>();
    EXPECT_TRUE(granted);
    if (granted) slot = granted->slot;
    for (const OwnedFd& watcher : watchers) ask(watcher, control::LookUpSlot{.slot = slot}, 2);
    for (const OwnedFd& watcher : watchers) EXPECT_TRUE(receive(watcher.get()).as<control::SlotOwner>());
  }
};

// A program that has the answer may count on its share of slots.
TEST(Crowd, ASlotIsGivenBackBeforeTheAnswer) {
  in_own_network([] {
    const auto client = open_client();
    const WatchedProgram program;
    ask(program.socket, control::ReleaseSlot{.slot = program.slot}, 3);
    EXPECT_TRUE(receive(program.socket.get()).as<control::Done>());
    std::size_t told = 0;
    for (const OwnedFd& watcher : program.watchers) {
      control::Received message;
      told += control::receive_message(watcher.get(), message) == control::ReceiveOutcome::kMessage ? 1 : 0;
    }
    EXPECT_EQ(told, kCrowd);
  });
}

// Its watchers would take the end of the former holder for the end of the new one.
TEST(Crowd, NobodyClaimsASlotThatIsBeingLeft) {
  in_own_network([] {
    const auto client = open_client();
    const WatchedProgram program;
    const OwnedFd claimant = connect_raw();
    EXPECT_TRUE(client->status().ok());  // the connection is accepted
    ::kill(daemon_of(*client), SIGSTOP);
    ask(program.socket, control::ReleaseSlot{.slot = program.slot}, 3);
    control::Hello hello;
    hello.claims = {{.slot = program.slot, .next_index = 0, .families = 3}};
    ask(claimant, hello, 1);
    ::kill(daemon_of(*client), SIGCONT);
    const auto welcome = receive(claimant.get()).as<control::Welcome>();
    ASSERT_TRUE(welcome);
    EXPECT_EQ(welcome->lost_slots, std::vector<control::Slot>{program.slot});
  });
}

// A tool gives up a capture of a process that is none of ours, and starts another one. The end of the first
// must not end the second.
TEST(Crowd, TheNextCaptureOfAToolGoesOn) {
  in_own_network([] {
    const auto client = open_client();
    const std::vector<OwnedFd> programs = crowd();
    const OwnedFd tool = greeted({.role = control::Role::kTool});
    int ends[2];
    ASSERT_EQ(raw::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const OwnedFd near(ends[0]), far(ends[1]);
    const int fds[] = {far.get()};
    ask(tool, control::StartCapture{.pid = 1}, 2, fds);
    ask(tool, control::StopCapture{}, 3);
    ask(tool, control::StartCapture{}, 4, fds);
    std::map<std::uint32_t, control::Received> replies;
    for (int i = 0; i < 3; ++i) {
      control::Received reply = receive(tool.get());
      replies.emplace(reply.header.serial, std::move(reply));
    }
    EXPECT_TRUE(replies[2].as<control::Failed>());
    EXPECT_TRUE(replies[3].as<control::Done>());
    const auto started = replies[4].as<control::CaptureStarted>();
    ASSERT_TRUE(started);
    EXPECT_EQ(started->programs, kCrowd + 1);
    const OwnedFd other = greeted({.role = control::Role::kTool});
    ask(other, control::StartCapture{}, 2, fds);
    EXPECT_TRUE(receive(other.get()).as<control::Failed>()) << "the second capture does not run any more";
  });
}

// A program ends that has many ids of the connection manager. The next one of its name listens at once.
TEST(Crowd, ListenersEndBeforeOtherIds) {
  in_own_network([] {
    constexpr std::uint16_t kPort = 7471;
    constexpr std::uint32_t kIds = 3000;
    const auto client = open_client();
    OwnedFd server = greeted({});
    ask(server, control::CmBind{.number = 1, .port = kPort}, 2);
    EXPECT_TRUE(receive(server.get()).as<control::CmBound>());
    ask(server, control::CmListen{.number = 1, .backlog = 1}, 3);
    EXPECT_TRUE(receive(server.get()).as<control::Done>());
    for (std::uint32_t number = 2; number < kIds; ++number) {
      ask(server, control::CmBind{.number = number}, 4);
      ASSERT_TRUE(receive(server.get()).as<control::CmBound>());
    }
    server.reset();
    EXPECT_TRUE(client->status().ok());
    const auto next = client->request<control::CmBound>(control::CmBind{.number = 1, .port = kPort});
    EXPECT_TRUE(next.ok()) << next.error().sentence;
  });
}

TEST(Hostile, AForgedParkingIsRefused) {
  in_own_network([] {
    // The port is busy, so the daemon accepts a parking.
    auto v4 = bind_slot_socket(AF_INET, true);
    auto v6 = bind_slot_socket(AF_INET6, true);
    ASSERT_TRUE(v4.ok() && v6.ok());
    const auto client = open_client();
    EXPECT_EQ(client->network().families, 0);
    int ends[2];
    ASSERT_EQ(raw::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    const OwnedFd one(ends[0]), two(ends[1]);
    ASSERT_GT(raw::sendto(two.get(), "forged forged forged", 20, 0, nullptr, 0), 0);
    const OwnedFd hostile = connect_raw();
    control::Hello hello;
    hello.offers_parking = true;
    const int fds[] = {one.get()};
    EXPECT_EQ(control::send_datagram(hostile.get(), control::encode(hello, 1), fds),
              control::SendOutcome::kSent);
    const auto welcome = receive(hostile.get()).as<control::Welcome>();
    ASSERT_TRUE(welcome.has_value());
    EXPECT_EQ(welcome->network.families, 0);
    EXPECT_TRUE(client->status().ok());
  });
}

}  // namespace rrdma::daemon::protocol_test
