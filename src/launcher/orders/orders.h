// Orders go from supervisor to agent, reports from agent to supervisor (orders.proto).
#pragma once

#include <functional>
#include <optional>

#include "launcher/orders/event.h"
#include "launcher/orders/orders.pb.h"

namespace rejoin::launcher {

using orders::Order;
using orders::Report;

// Functions that send a report or an order to the other side.
using SendReport = std::function<void(Report)>;
using SendOrder = std::function<void(Order)>;

Report to_report(const Event& event);
// Returns nothing if `happened` has values that no Event has.
std::optional<Event> to_event(const Report::Happened& happened);

}  // namespace rejoin::launcher
