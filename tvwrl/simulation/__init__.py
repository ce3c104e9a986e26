"""Time: arrivals, the waiting queue, departures, the only loop; turns decisions into episodes."""
