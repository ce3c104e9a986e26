"""What only `import tvwrl` offers: functions that do what the commands do, and return what they found."""
