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

// The host is set by the sender, also that of Event::AllOver.
Report to_report(const Event& event);
Report to_report(const StoodOnHost& found);
StoodOnHost to_stood(const Report::Standing& standing);
// Returns nothing if the report is of no event, or has values that no Event has.
std::optional<Event> to_event(const Report& report);

}  // namespace rejoin::launcher
