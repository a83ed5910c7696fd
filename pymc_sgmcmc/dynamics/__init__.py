"""The algorithms: splittings, thermostats, accept steps, schedules.

They know no model, no data and no chain.
"""
