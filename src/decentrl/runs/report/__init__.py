"""The page a run leaves behind: what was found, how sure it is, and how to get it again.

One self-contained HTML file: inline style, inline SVG, no scripts, nothing fetched from anywhere.
"""

from decentrl.runs.report.alignment import Report, render_report
from decentrl.runs.report.prediction import PredictionReport, render_prediction_report

__all__ = ["PredictionReport", "Report", "render_prediction_report", "render_report"]
