// Supervisor and agent speak in orders and reports (orders.proto).
#pragma once

#include <functional>
#include <optional>

#include "launcher/orders.pb.h"
#include "launcher/supervisor/supervisor_core.h"

namespace rejoin::launcher {

using orders::Order;
using orders::Report;

// Where reports go to, and orders.
using SendReport = std::function<void(Report)>;
using SendOrder = std::function<void(Order)>;

Report to_report(const Event& event);
// Nothing: `happened` holds numbers that no Event has.
std::optional<Event> to_event(const Report::Happened& happened);

}  // namespace rejoin::launcher
