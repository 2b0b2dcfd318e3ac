#include "daemon/registry/registry.h"

#include <cerrno>
#include <set>

#include "control/identity.h"

#ifndef RRDMA_VERSION
#define RRDMA_VERSION "unknown"
#endif

namespace rrdma::daemon {
namespace {

constexpr Duration kListPause = milliseconds(2);
// For one user, before the others get their turn.
constexpr std::size_t kListedInOneTurn = 128;
constexpr std::size_t kLookedAtInOneTurn = 1024;

std::uint64_t milliseconds_since(Instant then) {
  return static_cast<std::uint64_t>((EventLoop::now() - then).ns / 1'000'000);
}

}  // namespace

Subsystem::Verdict Registry::handle_message(Client& client, control::Received& message) {
  switch (message.type()) {
    case control::MessageType::kListProcesses:
      if (!message.as<control::ListProcesses>()) return Verdict::kMalformed;
      list_programs(client, message);
      return Verdict::kHandled;
    case control::MessageType::kQueryStatus:
      if (!message.as<control::QueryStatus>()) return Verdict::kMalformed;
      describe_daemon(client, message);
      return Verdict::kHandled;
    case control::MessageType::kUpdateProcess: {
      const auto update = message.as<control::UpdateProcess>();
      if (!update) return Verdict::kMalformed;
      client.hello.links = update->links;
      client.hello.devices = update->devices;
      (void)client.reply(message, control::Done{});
      return Verdict::kHandled;
    }
    default: return Verdict::kOthers;
  }
}

void Registry::list_programs(Client& client, const control::Received& request) {
  if (listings_.contains(&client))
    return client.fail(request, EBUSY, "the last list of programs has not been read yet.");
  Listing listing{.serial = request.header.serial};
  if (go_on(client, listing)) return;
  listings_.emplace(&client, listing);
  go_on_at_ = EventLoop::now() + kListPause;
}

bool Registry::go_on(Client& client, Listing& listing) {
  std::size_t entries = 0;
  for (std::size_t looked_at = 0; looked_at < kLookedAtInOneTurn && entries < kListedInOneTurn; ++looked_at) {
    if (client.has_backlog() || client.doomed()) break;
    const Client* program = server_.client_after(listing.last);
    if (program == nullptr) {
      (void)client.answer(listing.serial, control::Done{});
      return true;
    }
    listing.last = program->fd();
    if (program->hello.role != control::Role::kProgram || !may_see(client, program->identity)) continue;
    ++entries;
    control::ProcessEntry entry{.pid = static_cast<std::uint32_t>(program->identity.pid),
                                .uid = program->identity.uid,
                                .token = program->token,
                                .age_ms = milliseconds_since(program->connected_at),
                                .links = program->hello.links,
                                .program = program->hello.program,
                                .devices = program->hello.devices,
                                .library_version = program->hello.library_version,
                                .has_page = program->page.has_value(),
                                .slots = program->slots};
    const int page[] = {program->page ? program->page->fd() : -1};
    if (!client.answer(listing.serial, entry, std::span(page).first(entry.has_page ? 1 : 0))) {
      entry.has_page = false;
      (void)client.answer(listing.serial, entry);
    }
  }
  return client.doomed();
}

void Registry::handle_deadline(Instant now) {
  std::set<uid_t> served;
  for (auto entry = listings_.begin(); entry != listings_.end();) {
    Client& client = *entry->first;
    const bool is_turn = client.doomed() || (!client.has_backlog() && served.insert(client.account).second);
    entry = is_turn && go_on(client, entry->second) ? listings_.erase(entry) : std::next(entry);
  }
  go_on_at_ = listings_.empty() ? kNever : now + kListPause;
}

void Registry::handle_client_gone(Client& client) { listings_.erase(&client); }

void Registry::describe_daemon(Client& client, const control::Received& request) {
  (void)client.reply(request,
                     control::Status{.daemon_pid = static_cast<std::uint32_t>(raw::getpid()),
                                     .daemon_uid = ::geteuid(),
                                     .version = RRDMA_VERSION,
                                     .is_system = server_.settings().is_system,
                                     .stays = server_.settings().stays,
                                     .took_over = network_.took_over(),
                                     .uptime_ms = milliseconds_since(server_.started_at()),
                                     .clients = static_cast<std::uint16_t>(server_.client_count()),
                                     .slots_bound = static_cast<std::uint16_t>(network_.slots_bound()),
                                     .slots_held = static_cast<std::uint16_t>(slots_.held_count()),
                                     .slots_orphaned = static_cast<std::uint16_t>(slots_.orphan_count()),
                                     .network = network_.state(),
                                     .counters = counters_.list()});
}

}  // namespace rrdma::daemon
